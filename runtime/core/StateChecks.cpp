// Looks whether what lies beside a parameter is what a step reads and writes there, before a kernel gets its address:
// whoever has made it, or has read it from a file.
#include "Layout.h"
#include "TableImpl.h"

#include <algorithm>
#include <cstring>

using namespace altgrad::core;

namespace {

int64_t blocks(int64_t count, int64_t block) { return (count + block - 1) / block; }

// Bytes from its first element to the end of its storage.
int64_t bytesFrom(Handle tensor) {
  return ask<int64_t>(aoti_torch_get_storage_size, tensor) -
         ask<int64_t>(aoti_torch_get_storage_offset, tensor) * itemSizeOf(typeOf(tensor));
}

} // namespace

// How many values a tensor has for a row, and for those before it of the same parameter.
int64_t Table::valuesOf(int64_t row, const altgrad_core_stream &state, const Fingerprint &param) const {
  const Row &of = rows_[size_t(row)];
  if (of.numel == 0 && (state.of_units || state.block != 0)) // of which other ranks have all elements, perhaps
    return 0;
  const int64_t first = of.skipped / itemSizeOf(of.type), length = of.columns ? of.columns : of.numel;
  if (state.geometry == ALTGRAD_OF_COLUMNS)
    return length;
  if (state.geometry != ALTGRAD_OF_ELEMENTS) {
    const int64_t side = state.geometry == ALTGRAD_OF_COLUMN_SQUARES ? length : of.numel / std::max<int64_t>(length, 1);
    return side * side;
  }
  if (state.of_units == 2)
    return of.numel / std::max<int64_t>(length, 1);
  if (state.of_units)
    return first / std::max<int64_t>(of.columns, 1) + of.units;
  if (state.block == 0)
    return 1;
  if (state.columns == 0)
    return blocks(first + of.numel, int64_t(state.block) * (state.packed ? 2 : 1));
  const int64_t *shape = shapes.data() + param.shape;
  return product(stateLayout(Layout(param.dims, shape, shape + param.dims), !strcmp(state.key, "copy"), state.block,
                             state.columns, state.packed).sizes);
}

// Whether its elements lie in memory as those of the row are visited.
bool Table::liesAs(int64_t row, const Fingerprint &param, const Fingerprint &other) const {
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
      const Fingerprint *first = &paramOf(set, row);
      bool fits = set.width == 1 + set.states.size() && first->type == set.type;
      for (size_t i = 1; fits && i < set.width; ++i) {
        const altgrad_core_stream &state = set.states[i - 1];
        const Fingerprint &of = first[i];
        const int64_t values = valuesOf(row, state, *first);
        fits = of.type == state.dtype && numelOf(of.handle) >= values && onSameDevice(of.handle, first->handle) &&
               (values == 0 || (of.data && values * itemSizeOf(of.type) <= bytesFrom(of.handle))) &&
               (state.block != 1 || state.packed || state.geometry || liesAs(row, *first, of));
        if (!fits)
          throw Refusal(ALTGRAD_INVALID,
                        std::string("what is kept as '") + state.key + "' has " + std::to_string(numelOf(of.handle)) +
                            " values of torch's dtype " + std::to_string(of.type) + " where the step has " +
                            std::to_string(values) + " of " + std::to_string(state.dtype) +
                            ", or lies otherwise than its parameter: clear the state, or load one that fits");
      }
      if (!fits)
        throw Refusal(ALTGRAD_INVALID, "a parameter is not of the dtype that its step has");
    }
}
