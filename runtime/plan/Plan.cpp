// Binds tensors to a bundle's tables and runs its phases.
#include "plan/Plan.h"
#include "Status.h"

#include <algorithm>

using namespace altgrad::runtime;

namespace {

constexpr int64_t mostElements = int64_t(1) << 44; // 2^32 chunks
constexpr uint64_t workspaceAlignment = 64;

uint64_t aligned(uint64_t bytes) {
  return (bytes + workspaceAlignment - 1) & ~(workspaceAlignment - 1);
}

WorkspaceLayout layOut(const Manifest &manifest, const Tables &tables) {
  WorkspaceLayout layout;
  layout.rowWords = aligned(uint64_t(manifest.workspaceStepWords) * 8);
  layout.chunkWords =
      layout.rowWords + aligned(uint64_t(manifest.workspaceRowWords) *
                                uint64_t(tables.nrows) * 8);
  layout.spills =
      layout.chunkWords + aligned(uint64_t(manifest.workspaceChunkWords) *
                                  tables.chunks.size() * 4);
  layout.bytes = layout.spills + uint64_t(manifest.spills) *
                                     tables.chunks.size() * ALTGRAD_CHUNK * 4;
  return layout;
}

// Rows come set by set, chunks row by row.
void findSets(Tables &tables, const Manifest &manifest) {
  tables.setRows.assign(size_t(manifest.sets) + 1, tables.nrows);
  tables.setChunks.assign(size_t(manifest.sets) + 1,
                          int64_t(tables.chunks.size()));
  for (int64_t row = tables.nrows - 1; row >= 0; --row) {
    const uint64_t *words = &tables.rows[size_t(row * manifest.rowWords)];
    for (uint64_t set = 0; set <= words[ALTGRAD_ROW_SET]; ++set) {
      tables.setRows[set] = row;
      tables.setChunks[set] = int64_t(words[ALTGRAD_ROW_FIRST_CHUNK]);
    }
  }
}

void fillChunks(Tables &tables, int64_t rowWords, const int64_t *numel) {
  int64_t total = 0;
  for (int64_t row = 0; row < tables.nrows; ++row)
    total += (numel[row] + ALTGRAD_CHUNK - 1) / ALTGRAD_CHUNK;
  tables.chunks.clear();
  tables.chunks.reserve(size_t(total));
  for (int64_t row = 0; row < tables.nrows; ++row) {
    uint64_t *words = &tables.rows[size_t(row * rowWords)];
    words[ALTGRAD_ROW_FIRST_CHUNK] = tables.chunks.size();
    for (int64_t first = 0; first < numel[row]; first += ALTGRAD_CHUNK)
      tables.chunks.push_back({row, first});
    words[ALTGRAD_ROW_CHUNKS] =
        tables.chunks.size() - words[ALTGRAD_ROW_FIRST_CHUNK];
  }
}

} // namespace

Items altgrad::runtime::itemsOf(const Phase &phase, const Tables &tables) {
  if (phase.domain == Domain::Once)
    return {0, 1};
  const std::vector<int64_t> &begins =
      phase.domain == Domain::Chunks ? tables.setChunks : tables.setRows;
  if (phase.set < 0)
    return {0, begins.back()};
  return {begins[size_t(phase.set)], begins[size_t(phase.set) + 1]};
}

int64_t altgrad::runtime::pointersOf(const Scalar &scalar, const Tables &tables) {
  return scalar.scope == Scope::Step    ? 1
         : scalar.scope == Scope::Group ? tables.ngroups
                                        : tables.nrows;
}

const void *Tables::data(int table) const {
  const void *all[] = {rows.data(), inputs.data(), chunks.data(), groups.data(),
                       scalars.data()};
  return all[table];
}

size_t Tables::bytes(int table) const {
  size_t all[] = {rows.size() * 8, inputs.size() * 8,
                  chunks.size() * sizeof(altgrad_chunk), groups.size() * 8,
                  scalars.size() * 8};
  return all[table];
}

altgrad_status altgrad_plan::checkRows(int64_t nrows, const int64_t *numel,
                                       const int64_t *group, int64_t ngroups,
                                       const int64_t *set,
                                       const int64_t *offset) const {
  int64_t elements = 0, before = 0, last = bundle->manifest().sets - 1;
  if (!set && last > 0 && nrows > 0)
    return fail(ALTGRAD_INVALID, "set is NULL, but the step has %lld sets",
                (long long)last + 1);
  for (int64_t row = 0; row < nrows; ++row) {
    if (numel[row] < 0 || numel[row] > mostElements ||
        (elements += numel[row]) > mostElements)
      return fail(ALTGRAD_INVALID,
                  "numel[%lld] is %lld; all rows together may have 0 to 2^44",
                  (long long)row, (long long)numel[row]);
    if (group[row] < 0 || group[row] >= ngroups)
      return fail(ALTGRAD_INVALID, "group[%lld] is %lld, not in [0, %lld)",
                  (long long)row, (long long)group[row], (long long)ngroups);
    if (offset && offset[row] < 0)
      return fail(ALTGRAD_INVALID, "offset[%lld] is %lld", (long long)row,
                  (long long)offset[row]);
    if (set && (set[row] < before || set[row] > last))
      return fail(ALTGRAD_INVALID,
                  "set[%lld] is %lld, not in [%lld, %lld]: rows come set by set",
                  (long long)row, (long long)set[row], (long long)before,
                  (long long)last);
    before = set ? set[row] : 0;
  }
  return ALTGRAD_OK;
}

altgrad_status altgrad_plan::bindRows(int64_t nrows, const int64_t *numel,
                                      const int64_t *group, int64_t ngroups,
                                      const int64_t *set,
                                      const int64_t *offset,
                                      const int64_t *tag) {
  if (altgrad_status status =
          checkRows(nrows, numel, group, ngroups, set, offset))
    return status;
  const Manifest &manifest = bundle->manifest();
  declared = false; // stays so when memory runs out below
  tables.nrows = nrows;
  tables.ngroups = ngroups;
  tables.rows.assign(size_t(nrows * manifest.rowWords), 0);
  tables.inputs.assign(size_t(nrows * manifest.inputs), 0);
  tables.groups.assign(size_t(ngroups * manifest.groupScalars), 0);
  tables.scalars.assign(size_t(manifest.stepScalars), 0);
  for (int64_t row = 0; row < nrows; ++row) {
    uint64_t *words = &tables.rows[size_t(row * manifest.rowWords)];
    words[ALTGRAD_ROW_NUMEL] = uint64_t(numel[row]);
    words[ALTGRAD_ROW_OFFSET] = offset ? uint64_t(offset[row]) : 0;
    words[ALTGRAD_ROW_TAG] = uint64_t(tag ? tag[row] : row);
    words[ALTGRAD_ROW_GROUP] = uint64_t(group[row]);
    words[ALTGRAD_ROW_SET] = uint64_t(set ? set[row] : 0);
  }
  fillChunks(tables, manifest.rowWords, numel);
  findSets(tables, manifest);
  layout = layOut(manifest, tables);

  streamBound.assign(manifest.streams.size(), nrows == 0);
  scalarBound.clear();
  for (const Scalar &scalar : manifest.scalars)
    scalarBound.push_back(pointersOf(scalar, tables) == 0);
  unbound = std::count(streamBound.begin(), streamBound.end(), 0) +
            std::count(scalarBound.begin(), scalarBound.end(), 0);
  changed = (1u << tableCount) - 1;
  if (altgrad_status status = executor->prepare(tables))
    return status;
  declared = true;
  return ALTGRAD_OK;
}

void altgrad_plan::checkOff(std::vector<char> &bound, size_t index) {
  unbound -= !bound[index];
  bound[index] = 1;
}

/// Puts pointers into every `step`-th word from `first` on; true if one is new.
static bool place(std::vector<uint64_t> &words, size_t first, size_t step,
                  void *const *pointers, int64_t count) {
  uint64_t difference = 0;
  for (size_t i = 0; i < size_t(count); ++i) {
    uint64_t &word = words[first + i * step];
    difference |= word ^ uint64_t(pointers[i]);
    word = uint64_t(pointers[i]);
  }
  return difference != 0;
}

altgrad_status altgrad_plan::bindStream(size_t index, void *const *pointers,
                                        int64_t count) {
  const Manifest &manifest = bundle->manifest();
  const Stream &stream = manifest.streams[index];
  uint64_t unaligned = uint64_t(stream.bytes) - 1;
  for (int64_t row = 0; row < count; ++row) {
    const uint64_t *words = &tables.rows[size_t(row * manifest.rowWords)];
    if (words[ALTGRAD_ROW_NUMEL] == 0 ||
        words[ALTGRAD_ROW_SET] != uint64_t(stream.set))
      continue;
    bool missing = !pointers[row];
    if (missing || (uint64_t(pointers[row]) & unaligned))
      return fail(ALTGRAD_INVALID, "stream %s, row %lld: pointer %p is %s",
                  stream.name.c_str(), (long long)row, pointers[row],
                  missing ? "NULL" : "not aligned to its elements");
  }
  bool moves = stream.access == Access::In;
  size_t slot = size_t(stream.slot);
  if (moves ? place(tables.inputs, slot, size_t(manifest.inputs), pointers,
                    count)
            : place(tables.rows, ALTGRAD_ROW_HEADER + slot,
                    size_t(manifest.rowWords), pointers, count))
    changed |= 1u << (moves ? InputTable : RowTable);
  checkOff(streamBound, index);
  return ALTGRAD_OK;
}

altgrad_status altgrad_plan::bindScalar(size_t index, void *const *pointers,
                                        int64_t count) {
  const Manifest &manifest = bundle->manifest();
  const Scalar &scalar = manifest.scalars[index];
  for (int64_t i = 0; i < count; ++i)
    if (!pointers[i] || (uint64_t(pointers[i]) & (uint64_t(scalar.bytes) - 1)))
      return fail(ALTGRAD_INVALID, "scalar %s, pointer %lld: %p is %s",
                  scalar.name.c_str(), (long long)i, pointers[i],
                  pointers[i] ? "not aligned to its value" : "NULL");
  size_t slot = size_t(scalar.slot);
  bool differs = false;
  Table table = ScalarTable;
  switch (scalar.scope) {
  case Scope::Step:
    differs = place(tables.scalars, slot, 0, pointers, count);
    break;
  case Scope::Group:
    table = GroupTable;
    differs = place(tables.groups, slot, size_t(manifest.groupScalars),
                    pointers, count);
    break;
  case Scope::Tensor:
    table = RowTable;
    differs = place(tables.rows, ALTGRAD_ROW_HEADER + slot,
                    size_t(manifest.rowWords), pointers, count);
    break;
  }
  if (differs)
    changed |= 1u << table;
  checkOff(scalarBound, index);
  return ALTGRAD_OK;
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

altgrad_status altgrad_plan::run(void *workspace, uint64_t bytes, int64_t first,
                                 int64_t last, void *stream) {
  int64_t phases = int64_t(bundle->manifest().phases.size());
  if (last < 0)
    last = phases;
  if (first < 0 || first > last || last > phases)
    return fail(ALTGRAD_INVALID, "phases [%lld, %lld) of %lld",
                (long long)first, (long long)last, (long long)phases);
  if (!declared)
    return fail(ALTGRAD_INVALID, "no rows bound");
  if (unbound > 0)
    return nameUnbound();
  if (bytes < layout.bytes)
    return fail(ALTGRAD_INVALID, "workspace has %llu bytes, needs %llu",
                (unsigned long long)bytes, (unsigned long long)layout.bytes);
  if (layout.bytes > 0 &&
      (!workspace || uint64_t(workspace) % workspaceAlignment != 0))
    return fail(ALTGRAD_INVALID, "workspace %p is not 64-byte aligned memory",
                workspace);
  // An integer sum: an empty workspace may be NULL.
  uint64_t base = uint64_t(workspace);
  Launch launch{};
  launch.args = {tables.rows.data(),
                 tables.inputs.data(),
                 tables.chunks.data(),
                 tables.groups.data(),
                 tables.scalars.data(),
                 (uint64_t *)base,
                 (uint64_t *)(base + layout.rowWords),
                 (uint32_t *)(base + layout.chunkWords),
                 (float *)(base + layout.spills),
                 tables.nrows,
                 int64_t(tables.chunks.size())};
  launch.first = first;
  launch.last = last;
  launch.stream = stream;
  launch.parallelFor = parallelFor;
  launch.threads = threads;
  return executor->run(tables, launch, changed);
}
