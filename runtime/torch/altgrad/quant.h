// Tensors rounded to a number format, as numbers or as codes, with scales and without: altgrad.quant of the Python
// package, bit for bit.
//
//   at::Tensor rounded = altgrad::quant::quantize(x, "ocp.e4m3fn", altgrad::quant::compute_scale(x, "ocp.e4m3fn"));
//   auto [codes, scales] = altgrad::quant::quantize_blocks(x, "mxfp8");
#ifndef ALTGRAD_QUANT_H
#define ALTGRAD_QUANT_H

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>

namespace altgrad::quant {

// `x` is f32, bf16 or f16, of any shape and strides, on the CPU or on an NVIDIA GPU; `format` is a name that
// `altgrad-opt --list-formats` has. Throws c10::ValueError for another name, for a scale that is not positive and
// finite where the host has it, and for scales that do not fit; c10::TypeError for another dtype.

/// A positive number, or a tensor of them that broadcasts against `x`. With `block` above 0 its last dimension has a
/// number for each `block` neighbours of the last one of `x`. Those on a GPU are not read back.
struct Scale {
  Scale(double number = 1.0);
  Scale(at::Tensor numbers) : numbers(std::move(numbers)) {}
  at::Tensor numbers;
};

/// x / scale rounded to the nearest number of the format, times scale, in the dtype of `x`. Ties go to the even code.
/// What is beyond the format becomes its largest or smallest number. The gradient of `x` is that of the result, or with
/// `mask_saturated` 0 where x / scale is beyond the format; `scale` has none.
at::Tensor quantize(const at::Tensor &x, const std::string &format, const Scale &scale = {}, int64_t block = 0,
                    bool mask_saturated = false);

/// The codes of these numbers, without a gradient, in torch's dtype of the format. Where torch has none, codes of 2 to
/// 8 bits lie in uint8, one in the low bits of each, and codes of up to 16 bits in int16.
at::Tensor quantize_codes(const at::Tensor &x, const std::string &format, const Scale &scale = {}, int64_t block = 0);

/// x * scale in f32, where `x` has numbers of any real dtype, or codes; `format` is that of codes in integers.
at::Tensor dequantize(const at::Tensor &x, const Scale &scale = {}, const std::string &format = "", int64_t block = 0);

/// Codes and scales of blocks of the last dimension, as a step writes them into a parameter's copy, without a gradient.
/// `word` is one of a storage line: "mxfp8", "ocp.e4m3fn:128", "ocp.e4m3fn:128x128", "mxfp8:32x32". Codes have the
/// shape of `x`; those of 4 bits lie two to a byte of uint8 and have half of its last dimension. Scales have the shape
/// (..., n / block); (ceil(n / block),) where `x` has one dimension or none. Throws c10::ValueError where rows are no
/// multiple of the block.
std::pair<at::Tensor, at::Tensor> quantize_blocks(const at::Tensor &x, const std::string &word = "mxfp8");

/// amax * 1.01 / (the largest number of the format) in f32, at least 1e-10: the scale by which quantize() brings `x`
/// into the format's range. amax is the largest finite magnitude: of the whole tensor, over the dimensions `dim`, which
/// keep the extent 1, or with `block` of so many neighbours in the last dimension. `x` is of any real dtype.
at::Tensor compute_scale(const at::Tensor &x, const std::string &format, at::OptionalIntArrayRef dim = std::nullopt,
                         int64_t block = 0);

} // namespace altgrad::quant

#endif // ALTGRAD_QUANT_H
