// Looks whether what lies beside a parameter is what a step reads and writes there, before a kernel gets its address:
// whoever has made it, or has read it from a file.
#include "Table.h"

#include <algorithm>
#include <cstring>

using namespace altgrad::core;

namespace {

// Streams that lie beside a parameter; those of scalars are behind them.
bool isState(int32_t role) {
  return role == ALTGRAD_ROLE_STATE || role == ALTGRAD_ROLE_MASTER || role == ALTGRAD_ROLE_COPY ||
         role == ALTGRAD_ROLE_BLOCK_SCALE || role == ALTGRAD_ROLE_REMAINDER || role == ALTGRAD_ROLE_INPUT;
}

int64_t blocks(int64_t count, int64_t block) { return (count + block - 1) / block; }

int64_t itemSizeOf(Handle tensor) { return int64_t(aoti_torch_dtype_element_size(typeOf(tensor))); }

// Bytes from its first element to the end of its storage.
int64_t bytesFrom(Handle tensor) {
  return ask<int64_t>(aoti_torch_get_storage_size, tensor) -
         ask<int64_t>(aoti_torch_get_storage_offset, tensor) * itemSizeOf(tensor);
}

} // namespace

// In the order in which a table is given the tensors of a row.
void Table::findStates(altgrad_bundle *bundle) {
  for (int64_t i = 0; i < altgrad_stream_count(bundle); ++i) {
    const auto info = describe<altgrad_stream_info>(altgrad_stream_at, bundle, i);
    SetRows &set = sets[size_t(info.set)];
    if (info.role == ALTGRAD_ROLE_PARAM)
      set.type = altgrad_table_stream_dtype(&info);
    else if (isState(info.role))
      set.states.push_back({info.key, altgrad_table_stream_dtype(&info), info.block, info.columns,
                          info.even != ALTGRAD_UNPACKED, false, !strcmp(info.key, "copy")});
  }
  for (size_t index = 0; index < sets.size(); ++index) {
    std::vector<StateLayout> &states = sets[index].states, counts;
    for (int64_t i = 0; i < altgrad_scalar_count(bundle); ++i) {
      const auto info = describe<altgrad_scalar_info>(altgrad_scalar_at, bundle, i);
      const bool ofUnits = info.role == ALTGRAD_ROLE_STATE;
      if (info.set >= 0 && size_t(info.set) != index)
        continue;
      if (ofUnits || info.role == ALTGRAD_ROLE_TENSOR_SCALE)
        states.push_back({info.key, aoti_torch_dtype_float32(), 0, 0, false, ofUnits});
      else if (info.role == ALTGRAD_ROLE_STEP)
        counts.push_back(
            {info.key, info.type == ALTGRAD_F32 ? aoti_torch_dtype_float32() : aoti_torch_dtype_int64(), 0});
    }
    states.insert(states.end(), counts.begin(), counts.end());
  }
}

// How many values a tensor has for a row, and for those before it of the same parameter.
int64_t Table::valuesOf(int64_t row, const StateLayout &state, const Seen &param) const {
  const Row &of = rows_[size_t(row)];
  if (of.numel == 0 && (state.ofUnits || state.block != 0)) // of which other ranks have all elements, perhaps
    return 0;
  const int64_t first = of.skipped / int64_t(aoti_torch_dtype_element_size(of.type));
  if (state.ofUnits)
    return first / std::max<int64_t>(of.columns, 1) + of.units;
  if (state.block == 0)
    return 1;
  if (state.columns == 0)
    return blocks(first + of.numel, state.block * (state.pairs ? 2 : 1));
  const int64_t *shape = shapes.data() + param.shape;
  int64_t dims = param.dims, count = 1;
  std::vector<int64_t> sizes(shape, shape + dims), strides(shape + dims, shape + 2 * dims);
  sizes.resize(size_t(dims) + 2);
  strides.resize(size_t(dims) + 2);
  if (altgrad_table_beside(state.ofCopy, int32_t(state.block), int32_t(state.columns), state.pairs, &dims, sizes.data(),
                           strides.data()))
    throw Refusal(ALTGRAD_INVALID, lastError());
  for (int64_t i = 0; i < dims; ++i)
    count *= sizes[size_t(i)];
  return count;
}

// Whether its elements lie in memory as those of the row are visited.
bool Table::liesAs(int64_t row, const Seen &param, const Seen &other) const {
  const Row &of = rows_[size_t(row)];
  const int64_t *sizes = shapes.data() + param.shape, *own = shapes.data() + other.shape;
  const int64_t *strides = shapes.data() + of.strides, *now = own + other.dims;
  bool same = param.dims == other.dims;
  for (int64_t i = 0; same && i < param.dims; ++i)
    same = own[i] == sizes[i] && (sizes[i] == 1 || of.numel == 0 || strides[i] == now[i]);
  return same;
}

void Table::checkStates() {
  for (const SetRows &set : sets)
    for (int64_t row = set.first; row < set.last; ++row) {
      const Seen *first = &paramOf(set, row);
      bool fits = set.width == 1 + set.states.size() && first->type == set.type;
      for (size_t i = 1; fits && i < set.width; ++i) {
        const StateLayout &state = set.states[i - 1];
        const Seen &of = first[i];
        const int64_t values = valuesOf(row, state, *first);
        fits = of.type == state.type && numelOf(of.handle) >= values && onSameDevice(of.handle, first->handle) &&
               (values == 0 || (of.data && values * itemSizeOf(of.handle) <= bytesFrom(of.handle))) &&
               (state.block != 1 || state.pairs || liesAs(row, *first, of));
        if (!fits)
          throw Refusal(ALTGRAD_INVALID, "what is kept as '" + state.key + "' has " + std::to_string(numelOf(of.handle)) +
                                             " values of torch's dtype " + std::to_string(of.type) + " where the step has " +
                                             std::to_string(values) + " of " + std::to_string(state.type) +
                                             ", or lies otherwise than its parameter: clear the state, or load one that fits");
      }
      if (!fits)
        throw Refusal(ALTGRAD_INVALID, "a parameter is not of the dtype that its step has");
    }
}
