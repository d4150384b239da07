// Tables of the tensors that take part in a run: those of all, without the rest.
#include "Status.h"
#include "plan/Tensors.h"

#include <algorithm>

using namespace altgrad::runtime;

namespace {

class Selection {
public:
  Selection(const Manifest &manifest, const Tables &whole, const std::vector<uint8_t> &present, Tables &out)
      : manifest(manifest), whole(whole), present(present), out(out) {}
  void layOut();
  void copyRows();
  void copyInputs();

private:
  void copyItems(const std::vector<int64_t> &begins, std::vector<int64_t> &now);
  // The chunks [begin, end) of `whole`, with their rows as they are counted now.
  void copyChunks(int64_t begin, int64_t end, int64_t skippedRows);
  template <typename Visit> void eachTensor(Visit visit) const {
    for (size_t i = 0; i < present.size(); ++i)
      if (present[i])
        visit(whole.firstRows[i], whole.firstRows[i + 1]);
  }
  const uint64_t *row(int64_t index) const { return &whole.rows[size_t(index * manifest.rowWords)]; }

  const Manifest &manifest;
  const Tables &whole;
  const std::vector<uint8_t> &present;
  Tables &out;
};

void Selection::copyChunks(int64_t begin, int64_t end, int64_t skippedRows) {
  for (int64_t i = begin; i < end; ++i) {
    const altgrad_chunk &chunk = whole.chunks[size_t(i)];
    out.chunks.push_back({chunk.row - skippedRows, chunk.first});
  }
}

void Selection::layOut() {
  out = Tables();
  out.nrows = 0;
  out.ngroups = whole.ngroups;
  out.columnFloats = whole.columnFloats;
  const size_t sets = whole.setRows.size() - 1;
  for (size_t set = 0; set < sets; ++set) {
    out.setRows.push_back(out.nrows);
    out.setChunks.push_back(int64_t(out.chunks.size()));
    for (int64_t i = whole.setTensors[set]; i < whole.setTensors[set + 1]; ++i) {
      out.firstRows.push_back(out.nrows);
      const int64_t first = whole.firstRows[size_t(i)];
      const int64_t last = whole.firstRows[size_t(i) + 1];
      if (!present[size_t(i)])
        continue;
      if (first < last) {
        const uint64_t *begin = row(first), *end = row(last - 1);
        copyChunks(int64_t(begin[ALTGRAD_ROW_FIRST_CHUNK]),
                   int64_t(end[ALTGRAD_ROW_FIRST_CHUNK] + end[ALTGRAD_ROW_CHUNKS]), first - out.nrows);
      }
      out.nrows += last - first;
    }
  }
  out.firstRows.push_back(out.nrows);
  out.setRows.push_back(out.nrows);
  out.setChunks.push_back(int64_t(out.chunks.size()));
  copyItems(whole.setTiles, out.setTiles);
  copyItems(whole.setRuns, out.setRuns);
  copyItems(whole.setMatrices, out.setMatrices);
  for (int side : {0, 1})
    copyItems(whole.setSquares[side], out.setSquares[side]);
}

// What comes behind the chunks, set by set and in the order of the rows.
void Selection::copyItems(const std::vector<int64_t> &begins, std::vector<int64_t> &now) {
  const size_t sets = begins.size() - 1;
  for (size_t set = 0; set < sets; ++set) {
    now.push_back(int64_t(out.chunks.size()));
    int64_t item = begins[set];
    for (int64_t i = whole.setTensors[set]; i < whole.setTensors[set + 1]; ++i) {
      const int64_t from = item;
      while (item < begins[set + 1] && whole.chunks[size_t(item)].row < whole.firstRows[size_t(i) + 1])
        ++item;
      if (present[size_t(i)])
        copyChunks(from, item, whole.firstRows[size_t(i)] - out.firstRows[size_t(i)]);
    }
  }
  now.push_back(int64_t(out.chunks.size()));
}

void Selection::copyRows() {
  out.rows.clear();
  uint64_t chunk = 0, index = 0;
  eachTensor([&](int64_t first, int64_t last) {
    const uint64_t begin = index;
    for (int64_t i = first; i < last; ++i, ++index) {
      out.rows.insert(out.rows.end(), row(i), row(i) + manifest.rowWords);
      uint64_t *words = &out.rows[size_t(index) * size_t(manifest.rowWords)];
      words[ALTGRAD_ROW_FIRST_CHUNK] = chunk;
      words[ALTGRAD_ROW_TENSOR] = begin;
      chunk += words[ALTGRAD_ROW_CHUNKS];
    }
  });
}

void Selection::copyInputs() {
  out.inputs.clear();
  eachTensor([&](int64_t first, int64_t last) {
    out.inputs.insert(out.inputs.end(), whole.inputs.begin() + first * manifest.inputs,
                      whole.inputs.begin() + last * manifest.inputs);
  });
}

} // namespace

void altgrad::runtime::selectTensors(const Manifest &manifest, const Tables &whole, const std::vector<uint8_t> &present,
                                     unsigned what, Tables &out) {
  Selection selection(manifest, whole, present, out);
  if (what & 1u << ChunkTable)
    selection.layOut();
  if (what & 1u << RowTable)
    selection.copyRows();
  if (what & 1u << InputTable)
    selection.copyInputs();
  if (what & 1u << GroupTable)
    out.groups = whole.groups;
  if (what & 1u << ScalarTable)
    out.scalars = whole.scalars;
  out.values = whole.values;
  out.valueBytes = whole.valueBytes;
}

altgrad_status altgrad_plan::select(const uint8_t *given, int64_t count) {
  const int64_t all = int64_t(tables.firstRows.size()) - 1;
  if (given && count != all)
    return fail(ALTGRAD_INVALID, "%lld tensors are said to be there or not, of %lld", (long long)count, (long long)all);
  std::vector<uint8_t> now;
  if (given && std::find(given, given + count, 0) != given + count)
    now.assign(given, given + count);
  if (now == present)
    return ALTGRAD_OK;
  present = std::move(now);
  mark(allTables);
  if (!present.empty())
    selectTensors(bundle->manifest(), tables, present, allTables, selected);
  return ALTGRAD_OK;
}

// A pointer that was bound while its tensor was absent has not been looked at.
altgrad_status altgrad_plan::refreshSelection() {
  const Manifest &manifest = bundle->manifest();
  if (unselected & 1u << ChunkTable)
    for (const Stream &stream : manifest.streams) {
      const Items all = tensorsOf(stream.set, tables);
      const bool asks = stream.access == ALTGRAD_IN && streamBound[size_t(&stream - manifest.streams.data())];
      for (int64_t i = 0; asks && i < all.count(); ++i)
        if (const int64_t row = tables.firstRows[size_t(all.begin + i)]; isPresent(all.begin + i))
          if (altgrad_status status =
                  checkPointer(stream, i, (void *)tables.inputs[size_t(row * manifest.inputs + stream.slot)]))
            return status;
    }
  if (!present.empty())
    selectTensors(manifest, tables, present, unselected, selected);
  unselected = 0;
  return ALTGRAD_OK;
}
