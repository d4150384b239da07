// Registration of the dialect; its formats and types in text.
#include "dialect/Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

#include "dialect/Dialect.cpp.inc"
#include "dialect/Enums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialect/Attributes.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialect/Types.cpp.inc"

using namespace mlir;

void altgrad::AltgradDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/Attributes.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialect/Types.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialect/Ops.cpp.inc"
      >();
}

//===-- Formats -------------------------------------------------------------===//

namespace {
struct KnownFormat {
  StringLiteral name;
  altgrad::Format format;
};
} // namespace

static constexpr KnownFormat knownFormats[] = {
    {"f32", altgrad::f32Format},
    {"bf16", altgrad::bf16Format},
    {"f16", altgrad::f16Format},
    {"ocp.e4m3fn", altgrad::ocpE4M3Format},
    {"ocp.e5m2", altgrad::ocpE5M2Format},
};

altgrad::Format altgrad::FormatAttr::toFormat() const {
  return {static_cast<uint8_t>(getExponent()),
          static_cast<uint8_t>(getMantissa()), static_cast<int16_t>(getBias()),
          getInf(), static_cast<NanCode>(getNan())};
}

static bool sameFormat(const altgrad::Format &a, const altgrad::Format &b) {
  return a.exponentBits == b.exponentBits && a.mantissaBits == b.mantissaBits &&
         a.bias == b.bias && a.hasInf == b.hasInf && a.nan == b.nan;
}

StringRef altgrad::FormatAttr::getKnownName() const {
  for (const KnownFormat &known : knownFormats)
    if (sameFormat(known.format, toFormat()))
      return known.name;
  return "";
}

altgrad::FormatAttr altgrad::FormatAttr::getNamed(MLIRContext *context,
                                                  StringRef name) {
  for (const auto &[known, format] : knownFormats)
    if (known == name)
      return get(context, format.exponentBits, format.mantissaBits, format.bias,
                 format.hasInf, static_cast<Nan>(format.nan));
  return {};
}

Type altgrad::FormatAttr::getCodeType() const {
  if (isF32())
    return Float32Type::get(getContext());
  return IntegerType::get(getContext(), getBits());
}

LogicalResult
altgrad::FormatAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                            unsigned exponent, unsigned mantissa, int bias,
                            bool inf, Nan nan) {
  uint64_t bits = uint64_t(1) + exponent + mantissa;
  bool f32 = exponent == 8 && mantissa == 23 && bias == 127 && inf &&
             nan == Nan::Ieee;
  // format_c1
  if (!f32 && bits != 8 && bits != 16)
    return emitError() << "a format has 8 or 16 bits or is f32, got 1 + "
                       << exponent << " + " << mantissa;
  // format_c2
  if (exponent < 1 || exponent > 8)
    return emitError() << "a format has 1 to 8 exponent bits, got " << exponent;
  // format_c3
  if (bias < 0 || bias > 127)
    return emitError() << "a format has a bias of 0 to 127, got " << bias;
  // format_c4
  if (mantissa == 0 && nan == Nan::Ieee)
    return emitError() << "a format without a mantissa has no IEEE NaN";
  // format_c5
  if (inf != (nan == Nan::Ieee))
    return emitError() << "a format has an infinity exactly when its NaN is "
                          "ieee, got inf = "
                       << (inf ? "true" : "false")
                       << ", nan = " << stringifyNan(nan);
  Format format{static_cast<uint8_t>(exponent), static_cast<uint8_t>(mantissa),
                static_cast<int16_t>(bias), inf, static_cast<NanCode>(nan)};
  // format_c6
  if (!format.valid())
    return emitError() << "bias " << bias << " puts numbers beyond f32";
  return success();
}

Attribute altgrad::FormatAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  std::string keyword;
  if (parser.parseLess() || parser.parseKeywordOrString(&keyword))
    return {};
  if (keyword != "exponent") {
    FormatAttr known = getNamed(parser.getContext(), keyword);
    if (!known) {
      parser.emitError(loc) << "unknown format '" << keyword
                            << "'; known are f32, bf16, f16, ocp.e4m3fn, "
                               "ocp.e5m2";
      return {};
    }
    return failed(parser.parseGreater()) ? FormatAttr() : known;
  }
  unsigned exponent, mantissa;
  int bias;
  StringRef inf, nan;
  if (parser.parseEqual() || parser.parseInteger(exponent) ||
      parser.parseComma() || parser.parseKeyword("mantissa") ||
      parser.parseEqual() || parser.parseInteger(mantissa) ||
      parser.parseComma() || parser.parseKeyword("bias") ||
      parser.parseEqual() || parser.parseInteger(bias) || parser.parseComma() ||
      parser.parseKeyword("inf") || parser.parseEqual() ||
      parser.parseKeyword(&inf) || parser.parseComma() ||
      parser.parseKeyword("nan") || parser.parseEqual() ||
      parser.parseKeyword(&nan) || parser.parseGreater())
    return {};
  std::optional<Nan> nanCode = symbolizeNan(nan);
  if (!nanCode || (inf != "true" && inf != "false")) {
    parser.emitError(loc) << "expected inf = true|false, nan = "
                             "none|all_ones|ieee";
    return {};
  }
  return FormatAttr::getChecked(
      [&] { return parser.emitError(loc); }, parser.getContext(), exponent,
      mantissa, bias, inf == "true", *nanCode);
}

void altgrad::FormatAttr::print(AsmPrinter &printer) const {
  if (StringRef name = getKnownName(); !name.empty()) {
    printer << "<" << name << ">";
    return;
  }
  printer << "<exponent = " << getExponent() << ", mantissa = " << getMantissa()
          << ", bias = " << getBias()
          << ", inf = " << (getInf() ? "true" : "false")
          << ", nan = " << stringifyNan(getNan()) << ">";
}

//===-- Types ---------------------------------------------------------------===//

bool altgrad::isBlock(int64_t block) {
  return llvm::isPowerOf2_64(block) && block >= 32 && block <= maxBlock;
}

LogicalResult altgrad::TensorsType::verify(
    llvm::function_ref<InFlightDiagnostic()> emitError, FormatAttr,
    unsigned block) {
  // tensors_c1
  if (block != 1 && !isBlock(block))
    return emitError() << "a block is a power of two from 32 to " << maxBlock
                       << ", got " << block;
  return success();
}

Type altgrad::TensorsType::parse(AsmParser &parser) {
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess())
    return {};
  StringRef keyword;
  FormatAttr format;
  if (succeeded(parser.parseOptionalKeyword(&keyword))) {
    format = FormatAttr::getNamed(parser.getContext(), keyword);
    if (!format) {
      parser.emitError(loc) << "unknown format '" << keyword
                            << "'; known are f32, bf16, f16, ocp.e4m3fn, "
                               "ocp.e5m2";
      return {};
    }
  } else if (parser.parseAttribute(format)) {
    return {};
  }
  unsigned block = 1;
  if (succeeded(parser.parseOptionalKeyword("per")) &&
      parser.parseInteger(block))
    return {};
  if (parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(loc); }, parser.getContext(),
                    format, block);
}

void altgrad::TensorsType::print(AsmPrinter &printer) const {
  StringRef name = getFormat().getKnownName();
  printer << "<";
  if (name.empty())
    printer.printAttribute(getFormat());
  else
    printer << name;
  if (getBlock() > 1)
    printer << " per " << getBlock();
  printer << ">";
}
