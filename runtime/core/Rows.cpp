// The rows of a table: what each is to the plan, and where its tensors lie.
#include "Layout.h"
#include "TableImpl.h"

#include <algorithm>

using namespace altgrad::core;

// A row is a whole, a part of one, or one matrix of a parameter that holds several which are apart.
static altgrad_tensor declare(const altgrad_core_row &row, int64_t numel) {
  const Numbers shape(row.shape, row.shape + row.dims);
  altgrad_tensor of{};
  of.size = sizeof of;
  of.numel = numel;
  of.offset = row.offset;
  of.group = row.group;
  of.set = row.set;
  of.tag = row.place;
  of.whole = product(shape);
  of.units = 1;
  if (row.matrices) {
    of.rows = row.matrices->rows, of.columns = row.matrices->columns;
    of.units = of.whole ? of.rows * row.matrices->count : 1;
  } else if (row.dims > 1) {
    of.rows = shape[shape.size() - 2], of.columns = shape.back();
    of.units = of.whole ? shape[0] : 1;
  }
  if (row.piece < 0)
    return of;
  const Piece piece = pieceOf(*row.matrices, row.piece, row.place, row.more);
  of.tag = piece.tag;
  of.rows = of.units = piece.rows;
  of.whole = piece.rows * of.columns;
  of.numel = numel ? of.whole : 0; // another rank may step it
  return of;
}

void Table::addRow(const Program &program, const altgrad_core_row &row) {
  SetRows &set = sets.at(size_t(row.set));
  const auto place = int64_t(rows_.size());
  if (set.last == 0)
    set.first = place, set.firstFingerprint = fingerprints.size();
  set.last = place + 1;
  set.width = 1 + set.states.size();
  for (size_t i = 0; i < set.width; ++i)
    fingerprints.push_back(fingerprintOf(row.tensors[i]));
  const Fingerprint &param = fingerprints[fingerprints.size() - set.width];
  uint32_t strides = param.shape + uint32_t(param.dims);
  if (row.dense)
    strides = fingerprintOf(row.dense).shape + uint32_t(param.dims);
  altgrad_tensor &of = declared_.emplace_back(declare(row, numelOf(param.handle)));
  if (program.sets[row.set].columns)
    of.units = 0; // they are its rows
  const int32_t type = program.sets[row.set].grad->dtype;
  const int64_t first = row.piece < 0 ? 0 : pieceOf(*row.matrices, row.piece, row.place, row.more).first;
  rows_.push_back({of.numel, type, strides, isContiguous(row.dense ? row.dense : param.handle),
                   first * itemSizeOf(type), of.units, of.columns, row.dense});
  anyCopy |= row.dense != nullptr;
  for (size_t i = 1; i < set.width && first == 0; ++i)
    if (set.states[i - 1].role == ALTGRAD_ROLE_MASTER)
      masters.push_back({size_t(place), param.handle, row.dense ? row.dense : param.handle, row.tensors[i]});
}

// The `place`-th tensor of each row of a set. So many elements share one of its values, but a count is of them all.
void Table::bind(const altgrad_core_stream &stream, const SetRows &set, size_t place) {
  std::vector<void *> pointers;
  for (int64_t row = set.first; row < set.last; ++row) {
    const Row &of = rows_[size_t(row)];
    const Handle tensor = place == 0 && of.dense ? of.dense : (&paramOf(set, row))[place].handle;
    const int64_t shared = (stream.block ? stream.block : std::max<int64_t>(of.columns, 1)) * (1 + stream.packed);
    const int64_t first = stream.role == ALTGRAD_ROLE_STEP ? 0 : of.skipped / itemSizeOf(of.type) / shared;
    pointers.push_back(static_cast<char *>(writableOf(tensor)) + first * itemSizeOf(typeOf(tensor)));
  }
  const auto call = stream.block ? altgrad_bind_stream : altgrad_bind_scalar;
  check(call(plan, stream.name, pointers.data(), int64_t(pointers.size())));
}

void Table::bindTensors(const Program &program) {
  for (size_t i = 0; i < sets.size(); ++i) {
    bind(*program.sets[i].param, sets[i], 0);
    for (size_t place = 1; place <= sets[i].states.size(); ++place)
      bind(sets[i].states[place - 1], sets[i], place);
  }
}
