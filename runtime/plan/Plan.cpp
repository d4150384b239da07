// Binds tensors to a bundle's tables.
#include "plan/Plan.h"
#include "Status.h"
#include "plan/Tensors.h"

#include <algorithm>
#include <utility>

using namespace altgrad::runtime;

namespace {

uint64_t aligned(uint64_t bytes) { return (bytes + workspaceAlignment - 1) & ~(workspaceAlignment - 1); }

WorkspaceLayout layOut(const Manifest &manifest, const Tables &tables) {
  WorkspaceLayout layout;
  layout.rowWords = aligned(uint64_t(manifest.workspaceStepWords) * 8);
  layout.chunkWords = layout.rowWords + aligned(uint64_t(manifest.workspaceRowWords) * uint64_t(tables.nrows) * 8);
  layout.spills = layout.chunkWords + aligned(uint64_t(manifest.workspaceChunkWords) * uint64_t(tables.nchunks()) * 4);
  layout.bytes = layout.spills + uint64_t(manifest.spills) * uint64_t(tables.nchunks()) * ALTGRAD_CHUNK * 4 +
                 uint64_t(tables.columnFloats) * 4;
  return layout;
}

} // namespace

altgrad_status altgrad_plan::bindTensors(const std::vector<altgrad_tensor> &tensors, int64_t ngroups) {
  const Manifest &manifest = bundle->manifest();
  if (altgrad_status status = checkTensors(manifest, tensors, ngroups))
    return status;
  declared = false; // stays so when memory runs out below
  layTables(manifest, tensors, ngroups, tables);
  layout = layOut(manifest, tables);

  streamBound.clear();
  scalarBound.clear();
  for (const Stream &stream : manifest.streams)
    streamBound.push_back(tensorsOf(stream.set, tables).count() == 0);
  for (const Scalar &scalar : manifest.scalars)
    scalarBound.push_back(pointersOf(scalar, tables) == 0);
  unbound =
      std::count(streamBound.begin(), streamBound.end(), 0) + std::count(scalarBound.begin(), scalarBound.end(), 0);
  present.clear();
  mark(allTables);
  if (altgrad_status status = prepare())
    return status;
  declared = true;
  std::vector<uint8_t> part;
  for (const altgrad_tensor &tensor : tensors)
    part.push_back(!tensor.absent);
  return select(part.data(), int64_t(part.size()));
}

altgrad_status altgrad_plan::prepare() {
  prepared = false; // stays so when memory runs out
  if (altgrad_status status = executor->prepare(tables))
    return status;
  prepared = true;
  return ALTGRAD_OK;
}

void altgrad_plan::checkOff(std::vector<char> &bound, size_t index) {
  unbound -= !bound[index];
  bound[index] = 1;
}

static bool place(uint64_t &word, uint64_t pointer) { return std::exchange(word, pointer) != pointer; }

bool altgrad_plan::placeRows(std::vector<uint64_t> &words, size_t width, size_t slot, Items tensors,
                             void *const *pointers, const Stream *stream, uint64_t distance) const {
  const size_t rowWords = size_t(bundle->manifest().rowWords);
  bool differs = false;
  for (int64_t tensor = tensors.begin; tensor < tensors.end; ++tensor) {
    uint64_t pointer = uint64_t(pointers[tensor - tensors.begin]), step = distance;
    size_t row = size_t(tables.firstRows[size_t(tensor)]), end = size_t(tables.firstRows[size_t(tensor) + 1]);
    if (stream && end > row + 1)
      step = uint64_t(stream->bytesOfUnit(int64_t(tables.rows[row * rowWords + ALTGRAD_ROW_NUMEL])));
    for (; row < end; ++row, pointer += step)
      differs |= place(words[row * width + slot], pointer);
  }
  return differs;
}

altgrad_status altgrad_plan::checkPointer(const Stream &stream, int64_t tensor, void *pointer) const {
  int64_t row = tables.firstRows[size_t(tensorsOf(stream.set, tables).begin + tensor)];
  size_t words = size_t(row * bundle->manifest().rowWords);
  bool missing = !pointer;
  if (tables.rows[words + ALTGRAD_ROW_NUMEL] != 0 &&
      (missing || (uint64_t(pointer) & (uint64_t(stream.alignment()) - 1))))
    return fail(ALTGRAD_INVALID, "stream %s, tensor %lld: pointer %p is %s", stream.name.c_str(), (long long)tensor,
                pointer, missing ? "NULL" : "not aligned to its elements");
  return ALTGRAD_OK;
}

altgrad_status altgrad_plan::bindTensor(size_t index, int64_t tensor, void *pointer) {
  const Manifest &manifest = bundle->manifest();
  const Stream &stream = manifest.streams[index];
  const Items all = tensorsOf(stream.set, tables);
  if (tensor < 0 || tensor >= all.count())
    return fail(ALTGRAD_INVALID, "stream %s: tensor %lld of %lld", stream.name.c_str(), (long long)tensor,
                (long long)all.count());
  if (stream.access != ALTGRAD_IN || !streamBound[index])
    return fail(ALTGRAD_INVALID, "stream %s %s", stream.name.c_str(),
                streamBound[index] ? "is written: it moves as a whole" : "is not bound");
  if (altgrad_status status = checkPointer(stream, tensor, pointer))
    return status;
  const Items one{all.begin + tensor, all.begin + tensor + 1};
  if (placeRows(tables.inputs, size_t(manifest.inputs), size_t(stream.slot), one, &pointer, &stream))
    mark(1u << InputTable);
  return ALTGRAD_OK;
}

altgrad_status altgrad_plan::bindStream(size_t index, void *const *pointers) {
  const Manifest &manifest = bundle->manifest();
  const Stream &stream = manifest.streams[index];
  const Items all = tensorsOf(stream.set, tables);
  for (int64_t i = 0; i < all.count(); ++i)
    if (isPresent(all.begin + i))
      if (altgrad_status status = checkPointer(stream, i, pointers[i]))
        return status;
  bool moves = stream.access == ALTGRAD_IN;
  std::vector<uint64_t> &table = moves ? tables.inputs : tables.rows;
  size_t step = size_t(moves ? manifest.inputs : manifest.rowWords);
  size_t slot = size_t(stream.slot) + (moves ? 0 : ALTGRAD_ROW_HEADER);
  if (placeRows(table, step, slot, all, pointers, &stream))
    mark(1u << (moves ? InputTable : RowTable));
  checkOff(streamBound, index);
  return ALTGRAD_OK;
}

// Groups share words: those of another set keep what they have.
bool altgrad_plan::placeGroups(const Scalar &scalar, void *const *pointers) {
  bool differs = false;
  for (int64_t group = 0; group < tables.ngroups; ++group)
    if (tables.groupHas(group, scalar.set))
      differs |= place(tables.groups[size_t(group * bundle->manifest().groupScalars + scalar.slot)],
                       uint64_t(pointers[group]));
  return differs;
}

altgrad_status altgrad_plan::bindScalar(size_t index, void *const *pointers, int64_t count) {
  const Manifest &manifest = bundle->manifest();
  const Scalar &scalar = manifest.scalars[index];
  bool ofGroups = scalar.scope == ALTGRAD_PER_GROUP;
  // A tensor without elements has a row, too: what is of a tensor or its units is written there.
  for (int64_t i = 0; i < count; ++i)
    if ((!ofGroups || tables.groupHas(i, scalar.set)) &&
        (!pointers[i] || (uint64_t(pointers[i]) & (uint64_t(scalar.bytes) - 1))))
      return fail(ALTGRAD_INVALID, "scalar %s, pointer %lld: %p is %s", scalar.name.c_str(), (long long)i, pointers[i],
                  pointers[i] ? "not aligned to its value" : "NULL");
  for (int64_t i = 0; i < count; ++i)
    if ((scalar.access != ALTGRAD_IN || scalar.scope >= ALTGRAD_PER_TENSOR) && tables.isMirrored(uint64_t(pointers[i])))
      return fail(ALTGRAD_INVALID,
                  "scalar %s, pointer %lld lies among the mirrored values; only "
                  "what is read once per step or group may",
                  scalar.name.c_str(), (long long)i);
  size_t slot = size_t(scalar.slot), words = size_t(manifest.rowWords);
  bool differs = false;
  Table table = ScalarTable;
  if (ofGroups) {
    table = GroupTable;
    differs = placeGroups(scalar, pointers);
  } else if (scalar.scope == ALTGRAD_PER_STEP) {
    differs = place(tables.scalars[slot], uint64_t(pointers[0]));
  } else {
    table = RowTable;
    differs = placeRows(tables.rows, words, ALTGRAD_ROW_HEADER + slot, tensorsOf(scalar.set, tables), pointers, nullptr,
                        scalar.scope == ALTGRAD_PER_UNIT ? uint64_t(scalar.bytes) : 0);
  }
  if (differs)
    mark(1u << table);
  checkOff(scalarBound, index);
  return ALTGRAD_OK;
}

altgrad_status altgrad_plan::mirror(const void *values, uint64_t bytes) {
  if (!executor->mirrors() || (tables.values == values && tables.valueBytes == bytes))
    return ALTGRAD_OK;
  tables.values = values;
  tables.valueBytes = bytes;
  mark(allTables);
  prepared = false;
  return declared ? prepare() : ALTGRAD_OK;
}

altgrad_status altgrad_plan::nameUnbound() const {
  const Manifest &manifest = bundle->manifest();
  std::string names;
  for (size_t i = 0; i < streamBound.size(); ++i)
    if (!streamBound[i])
      names += (names.empty() ? "" : ", ") + manifest.streams[i].name;
  for (size_t i = 0; i < scalarBound.size(); ++i)
    if (!scalarBound[i])
      names += (names.empty() ? "" : ", ") + manifest.scalars[i].name;
  return fail(ALTGRAD_INVALID, "not bound: %s", names.c_str());
}
