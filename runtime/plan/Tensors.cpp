// Checks the tensors that a caller declares and lays out their rows and chunks.
#include "plan/Tensors.h"
#include "Status.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

using namespace altgrad::runtime;

namespace {

constexpr int64_t mostElements = int64_t(1) << 44; // 2^32 chunks
// Of an altgrad_tensor of the first altgrad, and of a later one.
constexpr uint64_t leastTensorBytes = offsetof(altgrad_tensor, units),
                   mostTensorBytes = 4096;

struct Shape {
  int64_t rows, columns, batch;
};

// The matrices that a tensor's elements are of; false where there are no such.
bool shapeOf(const altgrad_tensor &tensor, Shape &shape) {
  int64_t numel = tensor.numel, rows = tensor.rows, columns = tensor.columns;
  if (rows < 0 || columns < 0 || rows > mostElements || columns > mostElements)
    return false;
  if (rows == 0 && columns == 0) {
    shape = {1, numel, 1};
    return true;
  }
  bool empty = rows == 0 || columns == 0;
  shape = {rows, columns, empty ? 1 : numel / columns / rows};
  return empty ? numel == 0
               : numel % columns == 0 && numel / columns % rows == 0;
}

// A tensor is one row of the table, or as many as it has units.
struct Units {
  int64_t count, numel;
};

Units unitsOf(const Manifest &manifest, const altgrad_tensor &tensor) {
  if (!manifest.units || tensor.numel == 0)
    return {1, tensor.numel};
  Shape shape;
  shapeOf(tensor, shape);
  int64_t count = tensor.units ? tensor.units : shape.batch * shape.rows;
  return {count, tensor.numel / count};
}

// Checks one tensor after the other; what it knows of those before is kept.
class Checker {
public:
  Checker(const Manifest &manifest, int64_t ngroups);
  altgrad_status check(int64_t index, const altgrad_tensor &tensor);

private:
  altgrad_status checkElements(const altgrad_tensor &tensor);
  altgrad_status checkUnits(const altgrad_tensor &tensor);
  altgrad_status checkGroup(const altgrad_tensor &tensor);

  const Manifest &manifest;
  // By set: elements of the longest block; of what rows and units are multiples.
  std::vector<int64_t> blocks, rowMultiples, unitMultiples;
  std::vector<int64_t> groupSets; // empty: groups may be of several sets
  int64_t ngroups, elements = 0, set = 0, index = 0;
};

Checker::Checker(const Manifest &manifest, int64_t ngroups)
    : manifest(manifest), ngroups(ngroups) {
  for (int64_t of = 0; of < manifest.sets; ++of) {
    rowMultiples.push_back(manifest.rowMultiple(of));
    unitMultiples.push_back(manifest.unitMultiple(of));
    int64_t most = unitMultiples.back();
    for (const Stream &stream : manifest.streams)
      if (stream.set == of && stream.columns)
        most = std::max(most, stream.block);
    blocks.push_back(most);
  }
  for (const Scalar &scalar : manifest.scalars)
    if (scalar.scope == ALTGRAD_PER_GROUP && scalar.set >= 0)
      groupSets.assign(size_t(ngroups), -1);
}

altgrad_status Checker::checkElements(const altgrad_tensor &tensor) {
  if (tensor.numel < 0 || tensor.numel > mostElements ||
      (elements += tensor.numel) > mostElements)
    return fail(ALTGRAD_INVALID,
                "tensors[%lld].numel is %lld; all together may have 0 to 2^44",
                (long long)index, (long long)tensor.numel);
  if (tensor.offset < 0 || tensor.offset > mostElements - tensor.numel)
    return fail(ALTGRAD_INVALID,
                "tensors[%lld].offset is %lld, beyond 0 to 2^44 with %lld "
                "elements behind it",
                (long long)index, (long long)tensor.offset,
                (long long)tensor.numel);
  Shape shape;
  if (!shapeOf(tensor, shape))
    return fail(ALTGRAD_INVALID,
                "tensors[%lld] has %lld elements, which are no matrices of "
                "%lld rows and %lld columns",
                (long long)index, (long long)tensor.numel,
                (long long)tensor.rows, (long long)tensor.columns);
  int64_t block = blocks[size_t(tensor.set)];
  if (tensor.offset % block != 0)
    return fail(ALTGRAD_INVALID,
                "tensors[%lld].offset is %lld, not a multiple of %lld, the "
                "elements of a block in set %lld",
                (long long)index, (long long)tensor.offset, (long long)block,
                (long long)tensor.set);
  int64_t multiple = rowMultiples[size_t(tensor.set)];
  if (shape.rows * shape.batch > 1 && shape.columns % multiple != 0)
    return fail(
        ALTGRAD_INVALID,
        "tensors[%lld] has rows of %lld elements, not a multiple of "
        "%lld, the elements of a block in set %lld, in a sweep over tiles",
        (long long)index, (long long)shape.columns,
        (long long)multiple, (long long)tensor.set);
  return checkUnits(tensor);
}

altgrad_status Checker::checkUnits(const altgrad_tensor &tensor) {
  if (tensor.units < 0 || (tensor.units > 0 && tensor.numel % tensor.units != 0))
    return fail(ALTGRAD_INVALID,
                "tensors[%lld].units is %lld, not a divisor of its %lld elements",
                (long long)index, (long long)tensor.units,
                (long long)tensor.numel);
  const Units units = unitsOf(manifest, tensor);
  int64_t block = unitMultiples[size_t(tensor.set)];
  if (units.count > 1 && units.numel % block != 0)
    return fail(ALTGRAD_INVALID,
                "tensors[%lld] has %lld units of %lld elements, not a multiple "
                "of %lld, the elements of a block in set %lld",
                (long long)index, (long long)units.count,
                (long long)units.numel, (long long)block,
                (long long)tensor.set);
  return ALTGRAD_OK;
}

altgrad_status Checker::checkGroup(const altgrad_tensor &tensor) {
  if (tensor.group < 0 || tensor.group >= ngroups)
    return fail(ALTGRAD_INVALID,
                "tensors[%lld].group is %lld, not in [0, %lld)",
                (long long)index, (long long)tensor.group, (long long)ngroups);
  if (groupSets.empty())
    return ALTGRAD_OK;
  int64_t &other = groupSets[size_t(tensor.group)];
  if (other >= 0 && other != tensor.set)
    return fail(ALTGRAD_INVALID,
                "tensors[%lld] is of set %lld, but its group %lld has tensors "
                "of set %lld; here a group is of one set",
                (long long)index, (long long)tensor.set,
                (long long)tensor.group, (long long)other);
  other = tensor.set;
  return ALTGRAD_OK;
}

altgrad_status Checker::check(int64_t place, const altgrad_tensor &tensor) {
  index = place;
  if (tensor.set < set || tensor.set >= manifest.sets)
    return fail(ALTGRAD_INVALID,
                "tensors[%lld].set is %lld, not in [%lld, %lld]: tensors come "
                "set by set",
                (long long)index, (long long)tensor.set, (long long)set,
                (long long)manifest.sets - 1);
  set = tensor.set;
  if (altgrad_status status = checkElements(tensor))
    return status;
  return checkGroup(tensor);
}

// The row of a unit, which begins behind `before` others.
void layRow(const altgrad_tensor &tensor, int64_t index, int64_t row,
            int64_t before, int64_t numel, Tables &tables, uint64_t *words) {
  Shape shape;
  shapeOf(tensor, shape);
  words[ALTGRAD_ROW_NUMEL] = uint64_t(numel);
  words[ALTGRAD_ROW_OFFSET] = uint64_t(tensor.offset + before * numel);
  words[ALTGRAD_ROW_TAG] = uint64_t(tensor.tag < 0 ? index : tensor.tag);
  words[ALTGRAD_ROW_GROUP] = uint64_t(tensor.group);
  words[ALTGRAD_ROW_FIRST_CHUNK] = tables.chunks.size();
  for (int64_t first = 0; first < numel; first += ALTGRAD_CHUNK)
    tables.chunks.push_back({row, first});
  words[ALTGRAD_ROW_CHUNKS] =
      tables.chunks.size() - words[ALTGRAD_ROW_FIRST_CHUNK];
  words[ALTGRAD_ROW_TENSOR] = uint64_t(row - before);
  words[ALTGRAD_ROW_MATRIX_ROWS] = uint64_t(shape.rows);
  words[ALTGRAD_ROW_MATRIX_COLUMNS] = uint64_t(shape.columns);
  words[ALTGRAD_ROW_BATCH] = uint64_t(shape.batch);
}

// Behind the chunks, the tiles of the sets that have them: the rows that its
// phases say and 128 columns, or what is left of both.
void layTiles(const Manifest &manifest,
              const std::vector<altgrad_tensor> &tensors, Tables &tables) {
  constexpr int64_t columns = ALTGRAD_TILE_COLUMNS;
  std::vector<int64_t> rowsOf(size_t(manifest.sets), 0);
  for (const Phase &phase : manifest.phases)
    for (int64_t set = 0; set < manifest.sets; ++set)
      if (phase.tiles && (phase.set < 0 || phase.set == set))
        rowsOf[size_t(set)] = phase.tiles;
  tables.setTiles.assign(1, int64_t(tables.chunks.size()));
  size_t index = 0;
  for (int64_t set = 0; set < manifest.sets; ++set) {
    for (; index < tensors.size() && tensors[index].set == set; ++index) {
      const altgrad_tensor &tensor = tensors[index];
      Shape shape;
      shapeOf(tensor, shape);
      const int64_t rows = rowsOf[size_t(set)];
      if (!rows || tensor.numel == 0)
        continue;
      for (int64_t row = 0; row < shape.rows * shape.batch; row += rows)
        for (int64_t column = 0; column < shape.columns; column += columns)
          tables.chunks.push_back(
              {tables.firstRows[index], row * shape.columns + column});
    }
    tables.setTiles.push_back(int64_t(tables.chunks.size()));
  }
}

} // namespace

altgrad_status altgrad::runtime::readTensors(const altgrad_tensor *tensors,
                                             int64_t count,
                                             std::vector<altgrad_tensor> &out) {
  uint64_t stride = sizeof(altgrad_tensor);
  if (count > 0)
    memcpy(&stride, tensors, sizeof stride);
  if (stride < leastTensorBytes || stride > mostTensorBytes)
    return fail(ALTGRAD_INVALID,
                "tensors[0].size is %llu, not sizeof(altgrad_tensor), which is "
                "%zu here",
                (unsigned long long)stride, sizeof(altgrad_tensor));
  out.resize(size_t(count));
  auto *bytes = reinterpret_cast<const char *>(tensors);
  for (int64_t i = 0; i < count; ++i) {
    altgrad_tensor &tensor = out[size_t(i)] = {};
    memcpy(&tensor, bytes + uint64_t(i) * stride,
           std::min(stride, uint64_t(sizeof tensor)));
    if (tensor.size != stride)
      return fail(ALTGRAD_INVALID,
                  "tensors[%lld].size is %llu, the first's %llu", (long long)i,
                  (unsigned long long)tensor.size, (unsigned long long)stride);
  }
  return ALTGRAD_OK;
}

altgrad_status
altgrad::runtime::checkTensors(const Manifest &manifest,
                               const std::vector<altgrad_tensor> &tensors,
                               int64_t ngroups) {
  Checker checker(manifest, ngroups);
  for (size_t i = 0; i < tensors.size(); ++i)
    if (altgrad_status status = checker.check(int64_t(i), tensors[i]))
      return status;
  return ALTGRAD_OK;
}

void altgrad::runtime::layTables(const Manifest &manifest,
                                 const std::vector<altgrad_tensor> &tensors,
                                 int64_t ngroups, Tables &tables) {
  int64_t chunks = 0;
  tables.firstRows.assign(1, 0);
  for (const altgrad_tensor &tensor : tensors) {
    const Units units = unitsOf(manifest, tensor);
    chunks += units.count * ((units.numel + ALTGRAD_CHUNK - 1) / ALTGRAD_CHUNK);
    tables.firstRows.push_back(tables.firstRows.back() + units.count);
  }
  tables.nrows = tables.firstRows.back();
  tables.ngroups = ngroups;
  tables.rows.assign(size_t(tables.nrows * manifest.rowWords), 0);
  tables.inputs.assign(size_t(tables.nrows * manifest.inputs), 0);
  tables.groups.assign(size_t(ngroups * manifest.groupScalars), 0);
  tables.scalars.assign(size_t(manifest.stepScalars), 0);
  tables.groupSets.assign(size_t(ngroups), 0);
  tables.chunks.clear();
  tables.chunks.reserve(size_t(chunks));
  tables.setTensors.assign(size_t(manifest.sets) + 1, int64_t(tensors.size()));
  tables.setRows.assign(size_t(manifest.sets) + 1, tables.nrows);
  tables.setChunks.assign(size_t(manifest.sets) + 1, chunks);
  int64_t set = -1;
  for (size_t index = 0; index < tensors.size(); ++index) {
    const altgrad_tensor &tensor = tensors[index];
    const int64_t first = tables.firstRows[index];
    while (set < tensor.set) {
      tables.setTensors[size_t(++set)] = int64_t(index);
      tables.setRows[size_t(set)] = first;
      tables.setChunks[size_t(set)] = int64_t(tables.chunks.size());
    }
    tables.groupSets[size_t(tensor.group)] |= uint64_t(1) << tensor.set;
    const Units units = unitsOf(manifest, tensor);
    for (int64_t unit = 0; unit < units.count; ++unit)
      layRow(tensor, int64_t(index), first + unit, unit, units.numel, tables,
             &tables.rows[size_t((first + unit) * manifest.rowWords)]);
  }
  layTiles(manifest, tensors, tables);
}
