// Reads the tensors that a caller declares and lays out their rows and chunks.
#include "plan/Tensors.h"
#include "Status.h"
#include "plan/Shape.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

using namespace altgrad::runtime;

namespace {

// Of an altgrad_tensor of the first altgrad, and of a later one.
constexpr uint64_t leastTensorBytes = offsetof(altgrad_tensor, units), mostTensorBytes = 4096;

// The row of a unit, which begins behind `before` others.
void layRow(const altgrad_tensor &tensor, int64_t index, int64_t row, int64_t before, int64_t numel, Tables &tables,
            uint64_t *words) {
  Shape shape;
  shapeOf(tensor, shape);
  words[ALTGRAD_ROW_NUMEL] = uint64_t(numel);
  words[ALTGRAD_ROW_OFFSET] = uint64_t(tensor.offset + before * numel);
  words[ALTGRAD_ROW_TAG] = uint64_t(tagOf(tensor, index));
  words[ALTGRAD_ROW_GROUP] = uint64_t(tensor.group);
  words[ALTGRAD_ROW_FIRST_CHUNK] = tables.chunks.size();
  for (int64_t first = 0; first < numel; first += ALTGRAD_CHUNK)
    tables.chunks.push_back({row, first});
  words[ALTGRAD_ROW_CHUNKS] = tables.chunks.size() - words[ALTGRAD_ROW_FIRST_CHUNK];
  words[ALTGRAD_ROW_TENSOR] = uint64_t(row - before);
  words[ALTGRAD_ROW_MATRIX_ROWS] = uint64_t(shape.rows);
  words[ALTGRAD_ROW_MATRIX_COLUMNS] = uint64_t(shape.columns);
  words[ALTGRAD_ROW_BATCH] = uint64_t(shape.batch);
  const RowsHere here = rowsHere(tensor);
  words[ALTGRAD_ROW_ROWS] = uint64_t(here.count);
  words[ALTGRAD_ROW_LENGTH] = uint64_t(here.length);
}

// Behind the chunks, the tiles of the sets that have them: the rows that its
// phases say and 128 columns, or what is left of both.
void layTiles(const Manifest &manifest, const std::vector<altgrad_tensor> &tensors, Tables &tables) {
  constexpr int64_t columns = ALTGRAD_TILE_COLUMNS;
  tables.setTiles.assign(1, int64_t(tables.chunks.size()));
  size_t index = 0;
  for (int64_t set = 0; set < manifest.sets; ++set) {
    const int64_t rows = manifest.tileRows(set);
    for (; index < tensors.size() && tensors[index].set == set; ++index) {
      const altgrad_tensor &tensor = tensors[index];
      if (!rows || tensor.numel == 0)
        continue;
      const RowsHere here = rowsHere(tensor);
      for (int64_t row = 0; row < here.count; row += rows)
        for (int64_t column = 0; column < here.length; column += columns)
          tables.chunks.push_back({tables.firstRows[index], row * here.length + column});
    }
    tables.setTiles.push_back(int64_t(tables.chunks.size()));
  }
}

// Behind those, for sets with columns: the runs of rows of each tensor, and its first row, both a chunk of columns at a
// time.
void layRuns(const Manifest &manifest, const std::vector<altgrad_tensor> &tensors, int64_t distance,
             std::vector<int64_t> &begins, Tables &tables) {
  begins.assign(1, int64_t(tables.chunks.size()));
  size_t index = 0;
  for (int64_t set = 0; set < manifest.sets; ++set) {
    for (; index < tensors.size() && tensors[index].set == set; ++index) {
      const Units rows = unitsOf(manifest, tensors[index]);
      if (!manifest.hasColumns(set) || tensors[index].numel == 0)
        continue;
      for (int64_t row = 0; row < rows.count; row += distance ? distance : rows.count)
        for (int64_t first = 0; first < rows.numel; first += ALTGRAD_CHUNK)
          tables.chunks.push_back({tables.firstRows[index] + row, first});
    }
    begins.push_back(int64_t(tables.chunks.size()));
  }
}

int64_t sideOf(const altgrad_tensor &tensor, Side side) { return side == Side::Rows ? tensor.rows : tensor.columns; }

// Behind those, for sets with squares: their chunks.
void layOutSquares(const Manifest &manifest, const std::vector<altgrad_tensor> &tensors, Side side,
                   std::vector<int64_t> &begins, Tables &tables) {
  begins.assign(1, int64_t(tables.chunks.size()));
  size_t index = 0;
  for (int64_t set = 0; set < manifest.sets; ++set) {
    const bool has = manifest.hasSquares(set, side);
    for (; index < tensors.size() && tensors[index].set == set; ++index) {
      const int64_t numel = has ? sideOf(tensors[index], side) * sideOf(tensors[index], side) : 0;
      for (int64_t first = 0; first < numel && tensors[index].numel; first += ALTGRAD_CHUNK)
        tables.chunks.push_back({tables.firstRows[index], first});
    }
    begins.push_back(int64_t(tables.chunks.size()));
  }
}

int64_t chunksOf(int64_t numel) { return (numel + ALTGRAD_CHUNK - 1) / ALTGRAD_CHUNK; }

// Where the lists of squares of each tensor lie.
void laySquares(const Manifest &manifest, const std::vector<altgrad_tensor> &tensors, Tables &tables) {
  constexpr int64_t multiple = 16; // of floats: 64 bytes
  const SquareLists &lists = manifest.squares;
  for (size_t index = 0; index < tensors.size() && lists.slot >= 0; ++index) {
    const altgrad_tensor &tensor = tensors[index];
    if (!manifest.hasSquares(tensor.set, Side::Rows) && !manifest.hasSquares(tensor.set, Side::Columns))
      continue;
    tables.rows[size_t(tables.firstRows[index] * manifest.rowWords + ALTGRAD_ROW_HEADER + lists.slot)] =
        uint64_t(tables.columnFloats);
    const int64_t ofRows = tensor.rows * tensor.rows, ofColumns = tensor.columns * tensor.columns;
    const int64_t floats = lists.rows * ofRows + lists.columns * ofColumns + lists.rowWords * chunksOf(ofRows) +
                           lists.columnWords * chunksOf(ofColumns);
    tables.columnFloats += (floats + multiple - 1) / multiple * multiple;
  }
}

// Where the lists per column of each tensor lie, for all of its rows.
void layColumns(const Manifest &manifest, const std::vector<altgrad_tensor> &tensors, Tables &tables) {
  constexpr int64_t multiple = 16; // of floats: 64 bytes
  tables.columnFloats = 0;
  for (size_t index = 0; index < tensors.size() && manifest.columnSlot >= 0; ++index) {
    if (!manifest.hasColumns(tensors[index].set))
      continue;
    const Units rows = unitsOf(manifest, tensors[index]);
    const int64_t runs = (rows.count + ALTGRAD_RUN_ROWS - 1) / ALTGRAD_RUN_ROWS;
    for (int64_t row = tables.firstRows[index]; row < tables.firstRows[index + 1]; ++row)
      tables.rows[size_t(row * manifest.rowWords + ALTGRAD_ROW_HEADER + manifest.columnSlot)] =
          uint64_t(tables.columnFloats);
    const int64_t floats = rows.numel * (manifest.columnLists + manifest.columnRuns * runs);
    tables.columnFloats += (floats + multiple - 1) / multiple * multiple;
  }
}

} // namespace

altgrad_status altgrad::runtime::readTensors(const altgrad_tensor *tensors, int64_t count,
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
    memcpy(&tensor, bytes + uint64_t(i) * stride, std::min(stride, uint64_t(sizeof tensor)));
    if (tensor.size != stride)
      return fail(ALTGRAD_INVALID, "tensors[%lld].size is %llu, the first's %llu", (long long)i,
                  (unsigned long long)tensor.size, (unsigned long long)stride);
  }
  return ALTGRAD_OK;
}

void altgrad::runtime::layTables(const Manifest &manifest, const std::vector<altgrad_tensor> &tensors, int64_t ngroups,
                                 Tables &tables) {
  int64_t chunks = 0;
  tables.firstRows.assign(1, 0);
  for (const altgrad_tensor &tensor : tensors) {
    const Units units = unitsOf(manifest, tensor);
    chunks += units.count * chunksOf(units.numel);
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
  layRuns(manifest, tensors, ALTGRAD_RUN_ROWS, tables.setRuns, tables);
  layRuns(manifest, tensors, 0, tables.setMatrices, tables);
  layOutSquares(manifest, tensors, Side::Rows, tables.setSquares[0], tables);
  layOutSquares(manifest, tensors, Side::Columns, tables.setSquares[1], tables);
  layColumns(manifest, tensors, tables);
  laySquares(manifest, tensors, tables);
}
