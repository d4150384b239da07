// What a step keeps beside a parameter: how it begins, and whether what is there is that.
#include "altgrad_states.h"
#include "Layout.h"
#include "Tensor.h"

#include <cstring>

using namespace altgrad::core;

namespace {

std::string placeOf(Handle tensor) {
  const auto type = ask<int32_t>(aoti_torch_get_device_type, tensor);
  if (type == aoti_torch_device_type_cpu())
    return "cpu";
  const char *name = type == aoti_torch_device_type_cuda()   ? "cuda:"
                     : type == aoti_torch_device_type_meta() ? "meta:"
                                                             : "device:";
  return name + std::to_string(ask<int32_t>(aoti_torch_get_device_index, tensor));
}

Layout layoutOf(Handle tensor, const int64_t *strides) { return Layout(dimsOf(tensor), sizesOf(tensor), strides); }

// Sizes of a state with one value for each row of a matrix with all dimensions but the last, or for each column. What
// has no elements has one of both.
Numbers rowsOf(const Layout &param) {
  Numbers rows = product(param.sizes) ? param.sizes : Numbers(param.dims(), 1);
  if (!rows.empty())
    rows.back() = 1;
  return rows;
}

Numbers columnsOf(const Layout &param) {
  Numbers columns(param.dims(), 1);
  if (product(param.sizes) && !columns.empty())
    columns.back() = param.sizes.back();
  return columns;
}

// Sizes of a state with one value for each unit: each row of its matrices, or each index of dimension 0. Where rows are
// other stretches of the parameter, dimension 0 counts them.
Numbers unitsOf(const Layout &param, const altgrad_core_matrices *matrices) {
  Numbers units(param.dims(), 1);
  if (product(param.sizes) == 0 || (!matrices && param.dims() < 2))
    return units;
  const int64_t leading = matrices ? matrices->leading : 1;
  for (int64_t i = 0; i < int64_t(param.dims()); ++i)
    if (matrices && matrices->turned ? i != leading - 1 : i < leading)
      units[size_t(i)] = param.sizes[size_t(i)];
  const int64_t rows = matrices ? matrices->rows * matrices->count : 0; // of matrices of one size
  if (rows && rows * matrices->columns == product(param.sizes) && product(units) != rows) {
    units.assign(param.dims(), 1);
    units[0] = rows;
  }
  return units;
}

// Of what has no elements one, as of rows.
Numbers squareOf(const Layout &param, const altgrad_core_matrices *matrices, bool ofRows) {
  int64_t side = matrices ? (ofRows ? matrices->rows : matrices->columns) : 1;
  if (!matrices && param.dims() > 1)
    side = ofRows ? param.sizes[param.dims() - 2] : param.sizes.back();
  return Numbers(2, product(param.sizes) ? side : 1);
}

Layout layoutOf(const altgrad_core_stream &of, const Layout &param, const altgrad_core_matrices *matrices) {
  if (of.geometry >= ALTGRAD_OF_ROW_SQUARES)
    return Layout(squareOf(param, matrices, of.geometry == ALTGRAD_OF_ROW_SQUARES));
  if (of.geometry == ALTGRAD_OF_COLUMNS || of.of_units == 2)
    return Layout(of.geometry ? columnsOf(param) : rowsOf(param));
  return of.of_units ? Layout(unitsOf(param, matrices))
                     : stateLayout(param, !strcmp(of.key, "copy"), of.block, of.columns, of.packed);
}

bool isSameOrder(const Layout &one, const Numbers &strides) {
  for (size_t i = 0; i < one.dims(); ++i)
    if (one.sizes[i] != 1 && one.strides[i] != strides[i])
      return false;
  return true;
}

// A state that is there.
class Found {
public:
  Found(const altgrad_core_stream &of, Handle state, int32_t facts, Handle param, const Layout &own,
        const Layout &wanted)
      : of(of), state(state), param(param), facts(facts), layout(layoutOf(state, stridesOf(state))), own(own),
        wanted(wanted), type(typeOf(state)) {}

  void check() const {
    if (of.block != 1 || of.geometry != ALTGRAD_OF_ELEMENTS)
      return checkScales();
    if (!isFitting())
      refuse(" is " + nameOf(type) + ", and the step stores " + nameOf(of.dtype) +
             ": make the optimizer with the storage that its states have");
    const bool codes = of.packed || of.scaled > 1;
    if (layout.sizes != wanted.sizes || !onSameDevice(state, param))
      refuse(" of shape " + inWords(layout.sizes) + " on " + placeOf(state) +
             " does not belong to a parameter of shape " + inWords(own.sizes) +
             (of.packed ? ", whose codes have shape " + inWords(wanted.sizes) : " on " + placeOf(param)));
    if (codes && product(own.sizes) && (!isSameOrder(layout, wanted.strides) || facts & ALTGRAD_STATE_NOWHERE))
      refuse(" has strides " + inWords(layout.strides) + ", and its parameter needs " + inWords(wanted.strides) +
             ", because a block consists of neighbours in memory: give the parameter the memory format that it had");
  }

private:
  [[noreturn]] void refuse(const std::string &why) const {
    throw Refusal(ALTGRAD_INVALID, std::string("state '") + of.state + "'" + why);
  }

  // No number is lost in a step that stores it wider.
  bool isFitting() const {
    return type == of.dtype || (of.scaled == 1 && altgrad_core_format(type) && altgrad_core_format(of.dtype) &&
                                aoti_torch_dtype_element_size(type) < aoti_torch_dtype_element_size(of.dtype));
  }

  void checkScales() const {
    if (type == of.dtype && layout.sizes == wanted.sizes && layout.isContiguous() && onSameDevice(state, param) &&
        !(facts & ALTGRAD_STATE_NOWHERE))
      return;
    const std::string block = std::to_string(of.block),
                      across = of.columns > 1 ? block + " x " + std::to_string(of.columns) : block;
    refuse(" is " + nameOf(type) + " of shape " + inWords(layout.sizes) + " on " + placeOf(state) +
           "; expected contiguous " + nameOf(of.dtype).substr(strlen("torch.")) + " of shape " + inWords(wanted.sizes) +
           " on " + placeOf(param) + ", one for " +
           (of.geometry == ALTGRAD_OF_COLUMNS ? "each column"
            : of.geometry                     ? "each element of a square"
            : of.of_units == 2                ? "each row"
            : of.of_units                     ? "each unit"
            : of.block                        ? "each " + across + " elements"
                                              : "the parameter"));
  }

  const altgrad_core_stream &of;
  Handle state, param;
  int32_t facts;
  Layout layout;
  const Layout &own, wanted;
  int32_t type;
};

} // namespace

altgrad_status altgrad_core_new_state(const altgrad_core_program *program, int64_t set, int64_t index, int64_t dims,
                                      const int64_t *sizes, const int64_t *strides,
                                      const altgrad_core_matrices *matrices, altgrad_core_state *out) {
  return guarded([&] {
    static thread_local Layout made{Numbers()};
    const altgrad_core_stream &of = program->sets[set].states.at[index];
    made = layoutOf(of, Layout(dims, sizes, strides), matrices);
    const bool copies = (of.role == ALTGRAD_ROLE_MASTER || of.role == ALTGRAD_ROLE_COPY) && !of.packed;
    *out = {made.sizes.data(), made.strides.data(), int64_t(made.dims()), of.dtype, copies, of.first};
  });
}

altgrad_status altgrad_core_check_state(const altgrad_core_program *program, int64_t set, int64_t index,
                                        AtenTensorHandle state, int32_t facts, AtenTensorHandle param,
                                        const int64_t *strides, const altgrad_core_matrices *matrices) {
  return guarded([&] {
    const altgrad_core_stream &of = program->sets[set].states.at[index];
    if (of.role == ALTGRAD_ROLE_STATE && of.scaled == 1 && facts & ALTGRAD_STATE_SCALED)
      throw Refusal(ALTGRAD_INVALID, std::string("there is a state '") + of.state +
                                         "_scale', but the storage keeps state '" + of.state +
                                         "' of this parameter without scales: make the optimizer with the "
                                         "storage that its states have");
    const Layout own = layoutOf(param, strides);
    Found(of, state, facts, param, own, layoutOf(of, own, matrices)).check();
  });
}
