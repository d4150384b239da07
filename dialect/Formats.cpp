// Formats in text, and which of them make sense.
#include "dialect/Codecs.h"
#include "dialect/SpellCheck.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace altgrad;

Format FormatAttr::toFormat() const {
  return {uint8_t(getExponent()), uint8_t(getMantissa()), int16_t(getBias()), getInf(),        NanCode(getNan()),
          getHasSign(),           getHasZero(),           Ties(getTies()),    getComplement(), uint8_t(getBook())};
}

StringRef FormatAttr::getKnownName() const {
  for (const Preset &preset : presets)
    if (preset.format == toFormat())
      return preset.name;
  return "";
}

FormatAttr FormatAttr::getNamed(MLIRContext *context, StringRef name) {
  for (const auto &[known, f] : presets)
    if (known == name)
      return get(context, f.exponentBits, f.mantissaBits, f.bias, f.hasInf, Nan(f.nan), f.hasSign, f.hasZero,
                 Tie(f.ties), f.complement, f.book);
  return {};
}

CodecFacts altgrad::getCodecFacts(FormatAttr attribute) {
  if (!attribute)
    return {};
  Format f = attribute.toFormat();
  const Book *table = f.book ? &books[f.book - 1] : nullptr;
  bool zero = table ? table->numbers[table->zero] == 0 : f.hasZero;
  return {.table = table,
          .nearestOnly = table || attribute.isF32(),
          .sharesBytes = f.canPack(),
          .isSignMagnitude = !table && f.bits() <= 8 && f.hasSign && !f.complement,
          .negative = table ? table->hasSign : f.hasSign,
          .zero = zero,
          .least = table ? table->numbers[table->zero + zero] : decode(f, zero),
          .most = decode(f, f.maxCode()),
          .leastScale = table ? table->leastScale : 0x1p-120f};
}

const Book *altgrad::getTable(Operation *op) {
  if (auto encode = dyn_cast<EncodeOp>(op))
    return getCodecFacts(encode.getFormat()).table;
  auto decode = dyn_cast<DecodeOp>(op);
  return decode ? getCodecFacts(decode.getFormat()).table : nullptr;
}

// What torch, NumPy and others call a format.
static StringRef nameElsewhere(StringRef name) {
  return llvm::StringSwitch<StringRef>(name)
      .CasesLower({"float32", "fp32", "float", "single", "torch.float32"}, "f32")
      .CasesLower({"bfloat16", "bfloat", "torch.bfloat16"}, "bf16")
      .CasesLower({"float16", "fp16", "half", "torch.float16"}, "f16")
      .CasesLower({"e4m3", "e4m3fn", "fp8", "float8", "float8_e4m3fn", "torch.float8_e4m3fn"}, "ocp.e4m3fn")
      .CasesLower({"e5m2", "float8_e5m2", "torch.float8_e5m2"}, "ocp.e5m2")
      .CasesLower({"e2m1", "fp4", "float4_e2m1fn_x2"}, "ocp.e2m1")
      .CasesLower({"e8m0", "float8_e8m0fnu"}, "ocp.e8m0")
      .Default("");
}

std::string FormatAttr::unknown(StringRef name) {
  SmallVector<StringRef> known;
  for (const Preset &preset : presets)
    known.push_back(preset.name);
  StringRef meant = nameElsewhere(name);
  if (meant.empty())
    meant = closestSpelling(name, known);
  return "unknown format '" + name.str() + "'; " + (meant.empty() ? "" : "did you mean '" + meant.str() + "'? ") +
         "known are " + llvm::join(known, ", ");
}

std::string altgrad::listFormats() {
  std::string text;
  llvm::raw_string_ostream out(text);
  MLIRContext context;
  context.loadDialect<AltgradDialect>();
  for (const auto &[name, f] : presets) {
    CodecFacts codec = getCodecFacts(FormatAttr::getNamed(&context, name));
    out << llvm::format("%-15s %2u bits, ", name, f.bits())
        << (f.complement     ? "two's complement"
            : codec.negative ? "signed"
                             : "unsigned");
    if (codec.table)
      out << " code book";
    else
      out << llvm::format(" e%um%u", unsigned(f.exponentBits), unsigned(f.mantissaBits));
    out << llvm::format(", %g to %g", double(codec.least), double(codec.most)) << (f.hasInf ? ", inf" : "")
        << (f.nan == NanCode::None ? "" : ", nan") << "\n";
  }
  return text;
}

unsigned FormatAttr::getBits() const { return toFormat().bits(); }

Type FormatAttr::getCodeType() const {
  if (isF32())
    return Float32Type::get(getContext());
  return IntegerType::get(getContext(), getBytes() * 8);
}

// The words that an ordinary format need not say.
static LogicalResult verifyRare(function_ref<InFlightDiagnostic()> emitError, const Format &format) {
  // format_c7
  if (!format.hasZero && (format.mantissaBits > 0 || format.hasSign))
    return emitError() << "a format without a zero has neither a mantissa nor a sign";
  // format_c8
  if (format.ties != altgrad::Ties::Even && (format.mantissaBits > 0 || format.exponentBits < 2))
    return emitError() << "ties go to the even code in a format with a mantissa or less than 2 exponent bits";
  // format_c9
  if (format.complement && (format.exponentBits > 0 || !format.hasSign || format.nan != altgrad::NanCode::None))
    return emitError() << "two's complement has a sign, no exponent and no NaN";
  return success();
}

LogicalResult FormatAttr::verify(function_ref<InFlightDiagnostic()> emitError, unsigned exponent, unsigned mantissa,
                                 int bias, bool inf, Nan nan, bool hasSign, bool hasZero, Tie ties, bool complement,
                                 unsigned book) {
  if (book) // a row of the table, by its name
    return success();
  uint64_t bits = uint64_t(hasSign) + exponent + mantissa;
  bool f32 = exponent == 8 && mantissa == 23 && bias == 127 && inf && hasSign && nan == Nan::Ieee;
  // format_c1
  if (!f32 && (bits < 2 || bits > 16))
    return emitError() << "a format has 2 to 16 bits or is f32, got " << int(hasSign) << " + " << exponent << " + "
                       << mantissa;
  // format_c2
  if (exponent > 8)
    return emitError() << "a format has 0 to 8 exponent bits, got " << exponent;
  // format_c4
  if (nan == Nan::Ieee && (exponent == 0 || mantissa == 0))
    return emitError() << "a format without an exponent or a mantissa has no IEEE NaN";
  // format_c5
  if (inf != (nan == Nan::Ieee))
    return emitError() << "a format has an infinity exactly when its NaN is ieee, got inf = "
                       << (inf ? "true" : "false") << ", nan = " << stringifyNan(nan);
  // format_c6
  if (nan != Nan::None && exponent + mantissa < 2)
    return emitError() << "a format of " << bits << " bits has no code left for a NaN";
  Format format{uint8_t(exponent), uint8_t(mantissa), /*bias=*/0, inf,       NanCode(nan),
                hasSign,           hasZero,           Ties(ties), complement};
  if (failed(verifyRare(emitError, format)))
    return failure();
  // format_c3
  if (bias < format.smallestBias() || bias > format.largestBias())
    return emitError() << "every number of this format is an f32 if its bias is " << format.smallestBias() << " to "
                       << format.largestBias() << ", got " << bias;
  return success();
}

//===-- Text ----------------------------------------------------------------===//

// `= 4`, `= true` or `= ieee`, behind a key.
template <typename Field> static ParseResult parseField(AsmParser &parser, Field &field) {
  if (parser.parseEqual())
    return failure();
  FailureOr<Field> value = FieldParser<Field>::parse(parser);
  if (failed(value))
    return failure();
  field = *value;
  return success();
}

Attribute FormatAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  std::string keyword;
  if (parser.parseLess() || parser.parseKeywordOrString(&keyword))
    return {};
  if (keyword != "exponent") {
    FormatAttr known = getNamed(parser.getContext(), keyword);
    if (!known)
      parser.emitError(loc) << unknown(keyword);
    return !known || parser.parseGreater() ? FormatAttr() : known;
  }
  unsigned exponent, mantissa;
  int bias;
  bool inf, hasSign = true, hasZero = true, complement = false;
  Nan nan;
  Tie ties = Tie::Even;
  auto next = [&](StringRef key, auto &field) {
    return parser.parseComma() || parser.parseKeyword(key) || parseField(parser, field);
  };
  bool wrong = false;
  auto rare = [&](StringRef key, auto &field) {
    bool isHere = succeeded(parser.parseOptionalKeyword(key));
    wrong |= isHere && parseField(parser, field);
    return isHere;
  };
  if (parseField(parser, exponent) || next("mantissa", mantissa) || next("bias", bias) || next("inf", inf) ||
      next("nan", nan))
    return {};
  while (!wrong && succeeded(parser.parseOptionalComma()))
    if (!rare("signed", hasSign) && !rare("zero", hasZero) && !rare("ties", ties) && !rare("complement", complement))
      return parser.emitError(parser.getCurrentLocation(), "expected signed, zero, ties or complement"), Attribute();
  if (wrong || parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(loc); }, parser.getContext(), exponent, mantissa, bias, inf, nan,
                    hasSign, hasZero, ties, complement, /*book=*/0u);
}

void FormatAttr::print(AsmPrinter &printer) const {
  if (StringRef name = getKnownName(); !name.empty()) {
    printer << "<" << name << ">";
    return;
  }
  printer << "<exponent = " << getExponent() << ", mantissa = " << getMantissa() << ", bias = " << getBias()
          << ", inf = " << (getInf() ? "true" : "false") << ", nan = " << stringifyNan(getNan())
          << (getHasSign() ? "" : ", signed = false") << (getHasZero() ? "" : ", zero = false");
  if (getTies() != Tie::Even)
    printer << ", ties = " << stringifyTie(getTies());
  printer << (getComplement() ? ", complement = true>" : ">");
}
