// Rounding to formats, by steps without a rule.
#include "altgrad/quant.h"

#include "core/altgrad_quant.h"
#include "core/altgrad_storage.h"
#include "ops/Blocks.h"
#include "ops/GradientStep.h"
#include "tensors/Checks.h"
#include "tensors/DeviceContext.h"
#include "tensors/Errors.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <altgrad/codes.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>

using namespace altgrad::optim;
using altgrad::quant::Scale;
using at::Tensor;

namespace {

// A tensor that is one run of elements, or stretches of so many.
CheckedList listedOf(const Tensor &x, int64_t columns, int64_t count = 1) {
  const auto kind =
      uint8_t(std::find(std::begin(listFormats), std::end(listFormats), formatOf(x.scalar_type())) - listFormats);
  CheckedList listed{std::vector<uint8_t>(size_t(count), kind), std::vector<int64_t>(size_t(count), columns), {}};
  for (int64_t i = 0; i < count; ++i)
    listed.pointers.push_back(uint64_t(uintptr_t(x.const_data_ptr())) + uint64_t(i * columns * x.element_size()));
  return listed;
}

void checkNumbers(const Tensor &x) {
  ALTGRAD_CHECK_TYPE(isSupported(x.scalar_type()) && x.layout() == at::kStrided, "altgrad: a tensor of ",
                     x.scalar_type(), " and ", x.layout(),
                     " was given; the kernels read strided Float, BFloat16 and Half");
  ALTGRAD_CHECK_TYPE(isStored(x), "altgrad: a tensor on ", x.device(),
                     " was given that is no plain memory of the CPU or an NVIDIA GPU");
  if (!x._is_zerotensor())
    checkExtent(x);
}

// The numbers of all codes of a format.
Tensor numbersOf(const std::string &format) {
  const int32_t bits = altgrad_format_bits(format.c_str());
  Tensor codes = at::arange(int64_t(1) << bits, at::kLong).to(bits <= 8 ? at::kByte : at::kShort);
  Tensor numbers = at::empty(codes.sizes(), at::kFloat);
  check(altgrad_format_decode(format.c_str(), codes.data_ptr(), numbers.data_ptr<float>(), codes.numel()));
  return numbers;
}

// The dtype of its codes.
c10::ScalarType codesOf(const std::string &format) {
  ALTGRAD_CHECK_VALUE(format != "f32" && altgrad_format_bits(format.c_str()) > 0, "altgrad: '", format,
                      "' is no format to round to; altgrad-opt --list-formats names them");
  return c10::ScalarType(altgrad_core_dtype(format.c_str()));
}

// The scales of `x` in f32, if they fit.
Tensor scaleOf(const Scale &given, const Tensor &x, int64_t block) {
  Tensor scale = given.numbers.detach().to(at::kFloat);
  const int64_t blocks = block > 0 && x.dim() ? (x.size(-1) + block - 1) / block : -1;
  ALTGRAD_CHECK_VALUE(!block || (scale.dim() && scale.size(-1) == blocks), "altgrad: scale has sizes ", scale.sizes(),
                      "; with block ", block, " its last one has to be the number of blocks in that of x, ", x.sizes());
  if (scale.is_cpu() && scale.numel())
    ALTGRAD_CHECK_VALUE(at::logical_and(scale.gt(0), scale.isfinite()).all().item<bool>(), "altgrad: scale is ",
                        scale.numel() == 1 ? std::to_string(scale.item<float>()) : "not",
                        "; it has to be positive and finite in f32");
  return scale;
}

// One for each element of the last dimension.
Tensor spread(const Tensor &scale, const Tensor &x, int64_t block) {
  return block
             ? scale.repeat_interleave(std::min(block, std::max<int64_t>(x.size(-1), 1)), -1).narrow(-1, 0, x.size(-1))
             : scale;
}

void runStretches(const Tensor &x, const Tensor &out, const std::string &flags, const std::string &into,
                  const Tensor &scale, const altgrad_core_stretches &of) {
  CheckedList from = listedOf(x, of.columns, of.count), to{{}, {}, {}}, by{{}, {}, {}};
  for (int64_t i = 0; i < of.count; ++i) {
    to.pointers.push_back(uint64_t(uintptr_t(out.data_ptr())) + uint64_t(i * of.columns * out.element_size()));
    by.pointers.push_back(uint64_t(uintptr_t(scale.data_ptr<float>() + of.first[i])));
  }
  GradientStep::of(from, x.device(), flags + "\n--scales=" + of.extent, /*copies=*/true, into)
      .run(from, {{"copy", to.pointers}, {"grad_scale", by.pointers}});
}

altgrad_core_stretches stretchesOf(const Tensor &x, const Tensor &scale, int64_t block) {
  altgrad_core_stretches found{};
  if (x.numel() && scale.numel() && x.is_contiguous() && !x.is_neg() && !x._is_zerotensor() &&
      x.device() == scale.device())
    checkTable(altgrad_core_find_stretches(x.dim(), x.sizes().data(), scale.dim(), scale.sizes().data(),
                                           scale.strides().data(), block, &found));
  return found;
}

// Numbers of the format in the dtype of `x`, or `codes`.
Tensor rounded(const Tensor &x, const std::string &format, const Tensor &scale, bool codes, int64_t block) {
  const c10::ScalarType coded = codesOf(format);
  const bool several = scale.dim() > 0, isOne = !several && scale.is_cpu() && scale.item<float>() == 1;
  if (!codes && coded == x.scalar_type() && !isOne) // whose kernel would give codes
    return rounded(x.to(at::kFloat), format, scale, false, block).to(x.scalar_type());
  const at::TensorOptions options = x.options().dtype(codes ? coded : x.scalar_type());
  const std::string flags = "--quantize=" + format, into = codes ? format : "";
  if (several) {
    if (const altgrad_core_stretches of = stretchesOf(x, scale, block); of.count) {
      Tensor out = unwritten(at::empty_like(x, options));
      runStretches(x, out, flags, into, scale, of);
      return out;
    }
    const Tensor each = spread(scale, x, block), one = at::ones({}, at::kFloat), share = x.to(at::kFloat) / each;
    return codes ? rounded(share, format, one, true, 0)
                 : rounded(share, format, one, false, 0).mul_(each).to(x.scalar_type());
  }
  Tensor out = unwritten(at::empty_like(x, options));
  if (!x.numel())
    return out;
  const Tensor from = hasLayoutOf(out, x) ? x : at::empty_like(x).copy_(x);
  const CheckedList listed = listedOf(from, x.numel());
  GradientStep &step = GradientStep::of(listed, x.device(), flags, /*copies=*/true, into);
  if (scale.is_cpu())
    step.values().give(ALTGRAD_ROLE_SCALE, scale.item<double>());
  else
    step.values().give(ALTGRAD_ROLE_SCALE, scale);
  step.run(listed, {{"copy", {uint64_t(uintptr_t(out.data_ptr()))}}});
  return out;
}

struct StraightThrough : torch::autograd::Function<StraightThrough> {
  using Context = torch::autograd::AutogradContext;
  static Tensor forward(Context *ctx, const Tensor &x, const std::string &format, const Tensor &scale, int64_t block,
                        bool masked) {
    ctx->saved_data["sizes"] = x.sizes();
    if (masked) {
      const Tensor numbers = numbersOf(format), finite = numbers.masked_select(numbers.isfinite());
      const Tensor share = x.to(at::kFloat) / spread(scale, x, block);
      ctx->save_for_backward({share.ge(finite.min().item<float>()).logical_and_(share.le(finite.max().item<float>()))});
    }
    return rounded(x, format, scale, false, block);
  }
  static torch::autograd::tensor_list backward(Context *ctx, torch::autograd::tensor_list grads) {
    Tensor grad = grads[0];
    if (auto saved = ctx->get_saved_variables(); !saved.empty())
      grad = at::where(saved[0], grad, at::zeros({}, grad.options()));
    return {grad.sum_to_size(ctx->saved_data["sizes"].toIntVector()), {}, {}, {}, {}};
  }
};

} // namespace

Scale::Scale(double number) : numbers(at::scalar_tensor(number, at::kDouble)) {}

Tensor altgrad::quant::quantize(const Tensor &x, const std::string &format, const Scale &scale, int64_t block,
                                bool masked) {
  checkNumbers(x);
  codesOf(format);
  return StraightThrough::apply(x, format, scaleOf(scale, x, block), block, masked);
}

Tensor altgrad::quant::quantize_codes(const Tensor &x, const std::string &format, const Scale &scale, int64_t block) {
  at::NoGradGuard none;
  checkNumbers(x);
  return rounded(x.detach(), format, scaleOf(scale, x, block), true, block);
}

Tensor altgrad::quant::dequantize(const Tensor &x, const Scale &scale, const std::string &format, int64_t block) {
  ALTGRAD_CHECK_TYPE(!x.is_complex(), "altgrad: a tensor of ", x.scalar_type(), " was given; it has to be real");
  Tensor numbers = x;
  if (!format.empty()) {
    const c10::ScalarType coded = codesOf(format);
    ALTGRAD_CHECK_TYPE(x.scalar_type() == coded, "altgrad: a tensor of ", x.scalar_type(), " was given; codes of '",
                       format, "' are of ", coded);
    if (coded == at::kByte || coded == at::kShort) {
      const Tensor table = numbersOf(format).to(x.device());
      numbers = table.index_select(0, x.flatten().to(at::kInt).bitwise_and(table.numel() - 1)).view(x.sizes());
    }
  }
  return numbers.to(at::kFloat) * spread(scaleOf(scale, x, block), x, block);
}

std::pair<Tensor, Tensor> altgrad::quant::quantize_blocks(const Tensor &x, const std::string &given) {
  at::NoGradGuard none;
  checkNumbers(x);
  const char *full = altgrad_core_blocks_word(given.c_str());
  ALTGRAD_CHECK_VALUE(full, "altgrad: ", altgrad_core_error());
  const std::string word = full;
  altgrad_core_word of;
  checkTable(altgrad_core_word_of(full, &of));
  ALTGRAD_CHECK_VALUE(x.dim() < 2 || !x.numel() || x.size(-1) % of.multiple == 0, "altgrad: a tensor of sizes ",
                      x.sizes(), " has rows that are no multiple of the ", of.multiple, " in a block of '", given,
                      "': pad it, or give it in one dimension");
  const Tensor numbers = x.detach().contiguous().resolve_neg();
  auto make = [&](int32_t block, int32_t columns, bool packed, c10::ScalarType type) {
    int64_t dims = x.dim();
    std::vector<int64_t> sizes = x.sizes().vec(), strides = numbers.strides().vec();
    sizes.resize(size_t(dims) + 2), strides.resize(size_t(dims) + 2);
    checkTable(altgrad_core_state_layout(/*copy=*/true, block, columns, packed, &dims, sizes.data(), strides.data()));
    sizes.resize(size_t(dims));
    return packed ? at::zeros(sizes, x.options().dtype(type)) : at::empty(sizes, x.options().dtype(type));
  };
  Tensor codes = make(1, 0, of.packed, of.packed ? at::kByte : codesOf(of.format));
  const std::string kind = of.scales;
  Tensor scales = make(of.columns ? of.columns : of.block, of.columns, false,
                       kind == "f32"   ? at::kFloat
                       : kind == "f16" ? at::kHalf
                                       : at::kFloat8_e8m0fnu);
  if (numbers.numel())
    quantizeInto(numbers, {{"copy", &codes}, {"copy_scale", &scales}}, word,
                 of.columns ? std::vector<int64_t>{rowsOf(numbers)} : std::vector<int64_t>());
  return {codes, scales};
}

void altgrad::optim::quantizeInto(const Tensor &numbers, CopyParts parts, const std::string &word,
                                  std::vector<int64_t> rows) {
  Tensor most; // which a first step says, and none of `current` keeps
  if (!parts.count("copy_amax")) {
    most = at::empty({}, numbers.options().dtype(at::kFloat));
    parts["copy_amax"] = &most;
  }
  const CheckedList listed = listedOf(numbers, numbers.numel());
  GradientStep &step =
      GradientStep::of(listed, numbers.device(), "--quantize=" + word.substr(0, word.find_first_of(":,")),
                       /*copies=*/true, word, std::move(rows));
  step.values().give(ALTGRAD_ROLE_SCALE, 1);
  std::vector<GradientStep::Other> into;
  for (auto &[key, tensor] : parts)
    into.push_back({key, {uint64_t(uintptr_t(tensor->mutable_data_ptr()))}});
  step.run(listed, into);
}

Tensor altgrad::quant::compute_scale(const Tensor &x, const std::string &format, at::OptionalIntArrayRef dim,
                                     int64_t block) {
  ALTGRAD_CHECK_TYPE(!x.is_complex() && x.layout() == at::kStrided, "altgrad: a tensor of ", x.scalar_type(), " and ",
                     x.layout(), " was given; it has to be real and dense");
  ALTGRAD_CHECK_VALUE(block >= 0 && (!block || (!dim && x.dim())), "altgrad: block is ", block,
                      "; it counts neighbours in the last dimension, and there is no dim beside it");
  codesOf(format);
  at::NoGradGuard none;
  Tensor size = (x.scalar_type() == at::kDouble ? x : x.to(at::kFloat)).abs();
  size = at::where(size.isfinite(), size, at::zeros({}, size.options()));
  if (block) {
    block = std::min(block, std::max<int64_t>(x.size(-1), 1));
    const int64_t blocks = (x.size(-1) + block - 1) / block;
    size = at::constant_pad_nd(size, {0, blocks * block - x.size(-1)}).unflatten(-1, {blocks, block}).amax(-1);
  } else if (!x.numel()) {
    size = dim ? size.sum(dim, /*keepdim=*/true) : at::zeros({}, size.options());
  } else {
    size = dim ? size.amax(*dim, /*keepdim=*/true) : size.amax();
  }
  const Tensor numbers = numbersOf(format), amax = size.to(at::kDouble);
  const double largest = numbers.masked_select(numbers.isfinite()).max().item<double>();
  const Tensor scale = (amax * 1.01 / largest).clamp(1e-10, std::numeric_limits<float>::max());
  return at::where(amax.lt(1e-10), at::full({}, 1e-10, amax.options()), scale).to(at::kFloat);
}
