// What tables say of sets, phases and groups.
#include "executor/Executor.h"

#include <algorithm>

using namespace altgrad::runtime;

static Items partOf(int64_t set, const std::vector<int64_t> &begins) {
  if (set < 0)
    return {begins.front(), begins.back()};
  return {begins[size_t(set)], begins[size_t(set) + 1]};
}

static Items common(Items a, Items b) {
  const int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

// Those of `all` chunks or tiles, in the order of their rows, that are of `rows`.
static Items ofRows(Items all, Items rows, const std::vector<altgrad_chunk> &chunks) {
  auto first = [&](int64_t row) {
    return std::lower_bound(chunks.begin() + all.begin, chunks.begin() + all.end, row,
                            [](const altgrad_chunk &chunk, int64_t row) { return chunk.row < row; }) -
           chunks.begin();
  };
  return {first(rows.begin), first(rows.end)};
}

Items altgrad::runtime::itemsOf(const Phase &phase, const Tables &tables, const LaunchRange &part) {
  if (phase.domain == Domain::Once)
    return {0, 1};
  if (phase.domain == Domain::Rows)
    return common(partOf(phase.set, tables.setRows), part.rows);
  const bool ofMatrices = phase.walk == Walk::Heads || phase.walk == Walk::Columns;
  const bool ofSquares = phase.walk == Walk::RowSquares || phase.walk == Walk::ColumnSquares;
  const Items all = partOf(phase.set, phase.tiles                ? tables.setTiles
                                      : phase.walk == Walk::Runs ? tables.setRuns
                                      : ofMatrices               ? tables.setMatrices
                                      : ofSquares ? tables.setSquares[phase.walk == Walk::ColumnSquares]
                                                  : tables.setChunks);
  if (part.isWhole())
    return all;
  return common(ofRows(all, part.rows, tables.chunks), part.chunks);
}

Items altgrad::runtime::tensorsOf(int64_t set, const Tables &tables) { return partOf(set, tables.setTensors); }

int64_t altgrad::runtime::pointersOf(const Scalar &scalar, const Tables &tables) {
  return scalar.scope == ALTGRAD_PER_STEP    ? 1
         : scalar.scope == ALTGRAD_PER_GROUP ? tables.ngroups
                                             : tensorsOf(scalar.set, tables).count();
}

bool Tables::groupHas(int64_t group, int64_t set) const {
  return groupSets[size_t(group)] & (set < 0 ? ~uint64_t(0) : uint64_t(1) << set);
}

const void *Tables::data(int table) const {
  const void *all[] = {setRows.data(), &finished,      chunks.data(), rows.data(),
                       groups.data(),  scalars.data(), values,        inputs.data()};
  return all[table];
}

size_t Tables::bytes(int table) const {
  size_t all[] = {setRows.size() * 8, sizeof finished,   chunks.size() * sizeof(altgrad_chunk),
                  rows.size() * 8,    groups.size() * 8, scalars.size() * 8,
                  valueBytes,         inputs.size() * 8};
  return all[table];
}
