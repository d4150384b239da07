// encode and decode of FP8 by a GPU's own instructions: two numbers are one i16.
#include "codegen/numerics/Numerics.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace altgrad;

// The instructions take and give two elements at once.
static bool hasPairs(FormatAttr attribute, Value number, const Target &target) {
  Format format = attribute.toFormat();
  auto type = dyn_cast<VectorType>(number.getType());
  return target.convertsFp8 && (format == ocpE4M3Format || format == ocpE5M2Format) && type &&
         type.getNumElements() % 2 == 0;
}

static Type getType(FormatAttr format) {
  MLIRContext *context = format.getContext();
  return format.toFormat() == ocpE4M3Format ? Type(Float8E4M3FNType::get(context)) : Float8E5M2Type::get(context);
}

static Value toCode(CodeBuilder &b, EncodeOp op, const Target &target) {
  if (op.getRounding() != Round::NearestEven || op.getOverflow() != OverflowMode::Saturate ||
      !hasPairs(op.getFormat(), op.getNumber(), target))
    return {};
  int64_t count = cast<VectorType>(op.getNumber().getType()).getNumElements();
  Type i16 = b.getI16Type();
  SmallVector<Value> pairs;
  for (int64_t i = 0; i < count; i += 2) {
    Value low = b.element(op.getNumber(), i), high = b.element(op.getNumber(), i + 1);
    pairs.push_back(NVVM::ConvertF32x2ToF8x2Op::create(b, i16, high, low, NVVM::FPRoundingMode::RN,
                                                       NVVM::SaturationMode::SATFINITE, /*relu=*/false,
                                                       getType(op.getFormat())));
  }
  return b.castVector(op.getCode().getType(), b.fromElements(VectorType::get({count / 2}, i16), pairs));
}

// Two f16, which hold every number of both formats.
static Value toNumber(CodeBuilder &b, DecodeOp op, const Target &target) {
  if (!hasPairs(op.getFormat(), op.getNumber(), target))
    return {};
  auto type = cast<VectorType>(op.getNumber().getType());
  int64_t count = type.getNumElements() / 2;
  Type f16Pair = VectorType::get({2}, b.getF16Type()), bytes = VectorType::get({2}, b.getI8Type());
  Value words = b.castVector(VectorType::get({count}, b.getI16Type()), op.getCode());
  SmallVector<Value> numbers;
  for (int64_t i = 0; i < count; ++i) {
    Value word = b.fromElements(VectorType::get({1}, b.getI16Type()), b.element(words, i));
    Value pair = NVVM::ConvertF8x2ToF16x2Op::create(b, f16Pair, b.castVector(bytes, word), /*relu=*/false,
                                                    getType(op.getFormat()));
    for (int64_t j : {0, 1})
      numbers.push_back(arith::ExtFOp::create(b, b.getF32Type(), b.element(pair, j)));
  }
  return b.fromElements(type, numbers);
}

const Codec altgrad::pairCodec{toCode, toNumber};
