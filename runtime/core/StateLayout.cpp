// State layout: sizes and strides of what a step keeps beside a parameter, and which parameters that leaves out.
#include "Layout.h"
#include "TableImpl.h"

#include <torch/headeronly/core/ScalarType.h>

#include <cstring>
#include <utility>

using namespace altgrad::core;

namespace {

// The formats of which torch has a dtype, those of parameters and plain states in front; codes of others lie in
// integers.
constexpr int plain = 5;
const struct {
  const char *format;
  int32_t (*type)();
} types[] = {{"f32", aoti_torch_dtype_float32},
             {"bf16", aoti_torch_dtype_bfloat16},
             {"f16", aoti_torch_dtype_float16},
             {"ocp.e4m3fn", aoti_torch_dtype_float8_e4m3fn},
             {"ocp.e5m2", aoti_torch_dtype_float8_e5m2},
             {"altgrad.e5m10", aoti_torch_dtype_float16},
             {"altgrad.e5m2", aoti_torch_dtype_float8_e5m2},
             {"int8", aoti_torch_dtype_int8}};

constexpr auto e8m0 = int32_t(torch::headeronly::ScalarType::Float8_e8m0fnu); // which no function says in torch 2.10

const struct {
  int32_t (*type)();
  const char *name;
} dtypes[] = {{aoti_torch_dtype_float32, "float32"},
              {aoti_torch_dtype_bfloat16, "bfloat16"},
              {aoti_torch_dtype_float16, "float16"},
              {aoti_torch_dtype_float64, "float64"},
              {aoti_torch_dtype_float8_e4m3fn, "float8_e4m3fn"},
              {aoti_torch_dtype_float8_e5m2, "float8_e5m2"},
              {[] { return e8m0; }, "float8_e8m0fnu"},
              {aoti_torch_dtype_uint8, "uint8"},
              {aoti_torch_dtype_int8, "int8"},
              {aoti_torch_dtype_int16, "int16"},
              {aoti_torch_dtype_int64, "int64"}};

int64_t blocks(int64_t count, int64_t block) { return (count + block - 1) / block; }

// The dimension whose elements are neighbours has half as many bytes; where that is odd, it has all bytes of the tensor
// and the others 1. What would not say which order the others had is refused.
Layout packed(const Layout &of) {
  size_t inner = of.dims() - 1;
  int64_t least = INT64_MAX, before = INT64_MAX;
  for (size_t i = of.dims(); i-- > 0;)
    if (of.sizes[i] != 1 && of.strides[i] < least)
      least = of.strides[inner = i];
  const int64_t numel = product(of.sizes), bytes = blocks(numel, 2);
  const bool halves = of.dims() == 0 || of.sizes[inner] % 2 == 0 || numel == 0;
  Layout made = of;
  for (size_t i = 0; i < of.dims(); ++i) {
    if (!halves && i != inner && of.sizes[i] != 1 && of.strides[i] > std::exchange(before, of.strides[i]))
      of.refuse("has an odd number of elements in its innermost dimension, so two codes in a byte cannot keep its "
                "order: make it contiguous");
    const int64_t half = of.sizes[i] / 2;
    made.sizes[i] = halves ? (i == inner ? half : of.sizes[i]) : i == inner ? bytes : 1;
    made.strides[i] = i == inner ? (halves ? of.strides[i] : 1)
                      : halves   ? std::max<int64_t>(of.strides[i] / 2, 1)
                                 : bytes;
  }
  return made;
}

// One value for each block, the last of which may be short. Those of a copy are by rows, as MX tensors have them.
Layout shared(const Layout &of, int64_t block, int64_t columns, bool copy) {
  Numbers front = of.sizes;
  const int64_t length = of.dims() ? front.back() : 1;
  if (of.dims())
    front.pop_back();
  if (block == 0)
    return Layout(Numbers());
  if (columns)
    return Layout({blocks(product(front), block), blocks(length, columns)});
  if (!copy || of.dims() < 2)
    return Layout({blocks(product(of.sizes), block)});
  front.push_back(blocks(length, block));
  return Layout(front);
}

// A block of a copy consists of neighbours in a row.
void checkRows(const Layout &param, int64_t block) {
  if (param.sizes.back() % block)
    param.refuse("has rows of " + std::to_string(param.sizes.back()) + " elements, which is no multiple of the " +
                 std::to_string(block) + " in a block of its copy: give it to an optimizer without that copy");
  if (!param.isContiguous())
    param.refuse("does not have its last dimension last in memory, and a block of its copy consists of neighbours in "
                 "memory: make it contiguous");
}

// A unit is what one output of a layer is computed with, an index of dimension 0.
void checkUnits(const Layout &param, int64_t block) {
  const int64_t count = param.sizes[0], numel = product(param.sizes) / count;
  if (count > 1 && param.strides[0] != numel)
    param.refuse("does not hold each index of dimension 0 in one piece of memory, and \"agc-unit\", or a rule's unit, "
                 "has a number for each: use \"agc\", or make it contiguous");
  if (count > 1 && numel % block)
    param.refuse("has " + std::to_string(numel) +
                 " elements for each index of dimension 0, which is no multiple of the " + std::to_string(block) +
                 " in a block, and \"agc-unit\", or a rule's unit, has a number for each: use \"agc\", "
                 "or a storage and a rule without such blocks");
}

void checkFit(altgrad_bundle *bundle, int64_t set, const Layout &param) {
  int64_t block = 0;
  bool isPacked = false, isSquare = false;
  for (int64_t i = 0; i < altgrad_stream_count(bundle); ++i) {
    const auto info = describe<altgrad_stream_info>(altgrad_stream_at, bundle, i);
    const bool isCopy = info.set == set && !strcmp(info.key, "copy");
    isPacked |= isCopy && info.even != ALTGRAD_UNPACKED;
    isSquare |= isCopy && info.columns > 1;
    if (isCopy && info.role == ALTGRAD_ROLE_BLOCK_SCALE)
      block = info.block;
    if (info.set == set && info.even != ALTGRAD_UNPACKED)
      packed(param);
  }
  if (param.dims() < 2 || product(param.sizes) == 0)
    return;
  if (block) // squares may end at an edge, but not in a byte that the next row has a code in
    checkRows(param, !isSquare ? block : isPacked ? ALTGRAD_BLOCK_LEAST : 1);
  const int64_t length = param.sizes.back(), tile = altgrad_row_multiple(bundle, set);
  if (product(param.sizes) != length && length % tile)
    param.refuse(
        "has rows of " + std::to_string(length) + " elements, which is no multiple of the " + std::to_string(tile) +
        " in a block of its states, while the blocks of its copy go over several rows: give it to an optimizer "
        "without one of the two");
  if (const int64_t multiple = altgrad_unit_multiple(bundle, set)) // of units that a caller gives
    checkUnits(param, multiple);
}

// Of a parameter of which nobody has said which matrices it holds.
void checkMatrices(altgrad_bundle *bundle, int64_t set, const Layout &param) {
  const int32_t multiplies = altgrad_multiplies(bundle, set);
  const bool stacks = multiplies == 2;
  const int64_t numel = product(param.sizes);
  if (!multiplies || numel == 0)
    return;
  const bool fits = param.dims() >= 2 && (stacks || param.sizes[param.dims() - 2] * param.sizes.back() == numel);
  if (!fits)
    param.refuse(std::string("is no matrix") + (stacks ? " nor a stack of them" : "") +
                 ", and its rule multiplies matrices: it takes parameters of two dimensions" +
                 (stacks ? " or more" : "") + "; give the others to an optimizer of their own");
  const int64_t rows = param.sizes[param.dims() - 2], columns = param.sizes.back();
  if (multiplies == 3 && rows < columns)
    param.refuse("has " + std::to_string(rows) + " rows and " + std::to_string(columns) +
                 " columns, and its rule takes orthonormal(x) of a matrix, which has at least as many rows as columns: "
                 "make a parameter of the transpose, or give it to an optimizer of its own");
}

// Of a parameter whose matrices are tensors of their own.
void checkSeparate(altgrad_bundle *bundle, int64_t set, int64_t count) {
  auto check = [&](const auto &info, bool spans) {
    if (spans && (info.set == set || info.set < 0))
      throw Refusal(ALTGRAD_INVALID, std::string("has scales of '") + info.key + "' that go over its " +
                                         std::to_string(count) +
                                         " matrices, which step by themselves: leave it out of " +
                                         "the storage, or make parameters of them");
  };
  for (int64_t i = 0; i < altgrad_stream_count(bundle); ++i) {
    const auto info = describe<altgrad_stream_info>(altgrad_stream_at, bundle, i);
    check(info, info.columns != 0);
  }
  for (int64_t i = 0; i < altgrad_scalar_count(bundle); ++i) {
    const auto info = describe<altgrad_scalar_info>(altgrad_scalar_at, bundle, i);
    check(info, info.role == ALTGRAD_ROLE_TENSOR_SCALE);
    if (info.role == ALTGRAD_ROLE_STATE && info.scope != ALTGRAD_PER_UNIT && (info.set == set || info.set < 0))
      throw Refusal(ALTGRAD_INVALID, std::string("has a number '") + info.key + "' for all of its " +
                                         std::to_string(count) +
                                         " matrices, which step by themselves: make parameters of them");
  }
}

} // namespace

Layout altgrad::core::stateLayout(const Layout &param, bool copy, int64_t block, int64_t columns, bool pairs) {
  return block != 1 ? shared(param, block, columns, copy) : pairs ? packed(param) : param;
}

std::string altgrad::core::nameOf(int32_t dtype) {
  for (const auto &of : dtypes)
    if (of.type() == dtype)
      return std::string("torch.") + of.name;
  return "torch's dtype " + std::to_string(dtype);
}

int32_t altgrad_core_dtype(const char *format) {
  for (const auto &[name, type] : types)
    if (!strcmp(name, format))
      return type();
  return altgrad_format_bits(format) > 8 ? aoti_torch_dtype_int16() : aoti_torch_dtype_uint8();
}

int32_t altgrad_core_stream_dtype(const altgrad_stream_info *info) {
  if (info->role == ALTGRAD_ROLE_BLOCK_SCALE && !strcmp(info->format, "ocp.e8m0"))
    return e8m0;
  return info->even != ALTGRAD_UNPACKED ? aoti_torch_dtype_uint8() : altgrad_core_dtype(info->format);
}

const char *altgrad_core_format(int32_t type) {
  auto found = std::find_if(types, types + plain, [&](auto &known) { return known.type() == type; });
  return found == types + plain ? nullptr : found->format;
}

altgrad_status altgrad_core_state_layout(int32_t copy, int32_t block, int32_t columns, int32_t pairs, int64_t *dims,
                                         int64_t *sizes, int64_t *strides) {
  return guarded([&] {
    const Layout made = stateLayout(Layout(*dims, sizes, strides), copy, block, columns, pairs);
    *dims = int64_t(made.dims());
    std::copy(made.sizes.begin(), made.sizes.end(), sizes);
    std::copy(made.strides.begin(), made.strides.end(), strides);
  });
}

altgrad_status altgrad_core_check_fit(altgrad_bundle *bundle, int64_t set, const altgrad_core_matrices *matrices,
                                      int64_t dims, const int64_t *sizes, const int64_t *strides) {
  return guarded([&] {
    const Layout param(dims, sizes, strides);
    if (matrices && matrices->apart)
      checkSeparate(bundle, set, matrices->count);
    if (!matrices)
      checkMatrices(bundle, set, param);
    checkFit(bundle, set, matrices ? param.inOrder(placesOf(*matrices, dims)) : param);
  });
}

altgrad_status altgrad_core_check_matrices(altgrad_bundle *bundle, int64_t set, int64_t dims, const int64_t *sizes,
                                           const int64_t *strides) {
  return guarded([&] { checkMatrices(bundle, set, Layout(dims, sizes, strides)); });
}
