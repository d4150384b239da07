// Formats in text, and which of them make sense.
#include "dialect/Dialect.h"
#include "dialect/Nearest.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Format.h"

using namespace mlir;

using altgrad::Format;
using altgrad::FormatAttr;

Format FormatAttr::toFormat() const {
  return {static_cast<uint8_t>(getExponent()),
          static_cast<uint8_t>(getMantissa()),
          static_cast<int16_t>(getBias()),
          getInf(),
          static_cast<NanCode>(getNan()),
          getHasSign(),
          getHasZero(),
          static_cast<Ties>(getTies()),
          getComplement(),
          static_cast<uint8_t>(getBook())};
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
      return get(context, f.exponentBits, f.mantissaBits, f.bias, f.hasInf,
                 static_cast<Nan>(f.nan), f.hasSign, f.hasZero,
                 static_cast<Tie>(f.ties), f.complement, f.book);
  return {};
}

// What torch, NumPy and others call a format.
static StringRef nameElsewhere(StringRef name) {
  return llvm::StringSwitch<StringRef>(name)
      .CasesLower({"float32", "fp32", "float", "single", "torch.float32"}, "f32")
      .CasesLower({"bfloat16", "bfloat", "torch.bfloat16"}, "bf16")
      .CasesLower({"float16", "fp16", "half", "torch.float16"}, "f16")
      .CasesLower({"e4m3", "e4m3fn", "fp8", "float8", "float8_e4m3fn", "torch.float8_e4m3fn"},
                  "ocp.e4m3fn")
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
    meant = nearest(name, known);
  return "unknown format '" + name.str() + "'; " +
         (meant.empty() ? "" : "did you mean '" + meant.str() + "'? ") + "known are " +
         llvm::join(known, ", ");
}

std::string altgrad::listFormats() {
  std::string text;
  llvm::raw_string_ostream out(text);
  for (const auto &[name, f] : presets) {
    if (f.book) {
      const Book &book = books[f.book - 1];
      bool hasZero = book.numbers[book.zero] == 0;
      out << llvm::format("%-15s %2u bits, ", name, f.bits())
          << (book.hasSign ? "signed" : "unsigned")
          << llvm::format(" code book, %g to %g\n",
                          double(book.numbers[book.zero + hasZero]),
                          double(decode(f, f.maxCode())));
      continue;
    }
    StringRef sign = f.complement ? "two's complement"
                     : f.hasSign  ? "signed"
                                  : "unsigned";
    out << llvm::format("%-15s %2u bits, ", name, f.bits()) << sign
        << llvm::format(" e%um%u, %g to %g", unsigned(f.exponentBits),
                        unsigned(f.mantissaBits),
                        double(decode(f, uint32_t(f.hasZero))),
                        double(decode(f, f.maxCode())))
        << (f.hasInf ? ", inf" : "") << (f.nan == NanCode::None ? "" : ", nan")
        << "\n";
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
static LogicalResult
verifyRare(llvm::function_ref<InFlightDiagnostic()> emitError,
           const Format &format) {
  // format_c7
  if (!format.hasZero && (format.mantissaBits > 0 || format.hasSign))
    return emitError()
           << "a format without a zero has neither a mantissa nor a "
              "sign";
  // format_c8
  if (format.ties != altgrad::Ties::Even &&
      (format.mantissaBits > 0 || format.exponentBits < 2))
    return emitError()
           << "ties go to the even code in a format with a mantissa "
              "or less than 2 exponent bits";
  // format_c9
  if (format.complement && (format.exponentBits > 0 || !format.hasSign ||
                            format.nan != altgrad::NanCode::None))
    return emitError() << "two's complement has a sign, no exponent and no NaN";
  return success();
}

LogicalResult
FormatAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                   unsigned exponent, unsigned mantissa, int bias, bool inf,
                   Nan nan, bool hasSign, bool hasZero, Tie ties,
                   bool complement, unsigned book) {
  if (book) // a row of the table, by its name
    return success();
  uint64_t bits = uint64_t(hasSign) + exponent + mantissa;
  bool f32 = exponent == 8 && mantissa == 23 && bias == 127 && inf && hasSign &&
             nan == Nan::Ieee;
  // format_c1
  if (!f32 && (bits < 2 || bits > 16))
    return emitError() << "a format has 2 to 16 bits or is f32, got "
                       << int(hasSign) << " + " << exponent << " + "
                       << mantissa;
  // format_c2
  if (exponent > 8)
    return emitError() << "a format has 0 to 8 exponent bits, got " << exponent;
  // format_c4
  if (nan == Nan::Ieee && (exponent == 0 || mantissa == 0))
    return emitError()
           << "a format without an exponent or a mantissa has no IEEE NaN";
  // format_c5
  if (inf != (nan == Nan::Ieee))
    return emitError() << "a format has an infinity exactly when its NaN is "
                          "ieee, got inf = "
                       << (inf ? "true" : "false")
                       << ", nan = " << stringifyNan(nan);
  // format_c6
  if (nan != Nan::None && exponent + mantissa < 2)
    return emitError() << "a format of " << bits
                       << " bits has no code left for a NaN";
  Format format{static_cast<uint8_t>(exponent),
                static_cast<uint8_t>(mantissa),
                /*bias=*/0,
                inf,
                static_cast<NanCode>(nan),
                hasSign,
                hasZero,
                static_cast<Ties>(ties),
                complement};
  if (failed(verifyRare(emitError, format)))
    return failure();
  // format_c3
  if (bias < format.smallestBias() || bias > format.largestBias())
    return emitError()
           << "every number of this format is an f32 if its bias is "
           << format.smallestBias() << " to " << format.largestBias()
           << ", got " << bias;
  return success();
}

//===-- Text
//----------------------------------------------------------------===//

static ParseResult parseWord(AsmParser &parser, StringRef keyword,
                             StringRef &word) {
  return failure(parser.parseKeyword(keyword) || parser.parseEqual() ||
                 parser.parseKeyword(&word));
}

static ParseResult parseFlag(AsmParser &parser, StringRef keyword, bool &flag) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  if (parseWord(parser, keyword, word))
    return failure();
  if (word != "true" && word != "false")
    return parser.emitError(loc) << "expected " << keyword << " = true|false";
  flag = word == "true";
  return success();
}

// signed, zero, ties and complement, each where it is not as usual.
static ParseResult parseRare(AsmParser &parser, bool &hasSign, bool &hasZero,
                             altgrad::Tie &ties, bool &complement) {
  std::pair<StringRef, bool *> flags[] = {
      {"signed", &hasSign}, {"zero", &hasZero}, {"complement", &complement}};
  while (succeeded(parser.parseOptionalComma())) {
    SMLoc loc = parser.getCurrentLocation();
    StringRef keyword, word;
    if (parser.parseKeyword(&keyword) || parser.parseEqual() ||
        parser.parseKeyword(&word))
      return failure();
    auto flag =
        llvm::find_if(flags, [&](auto f) { return f.first == keyword; });
    std::optional<altgrad::Tie> tie = altgrad::symbolizeTie(word);
    if (flag != std::end(flags) && (word == "true" || word == "false"))
      *flag->second = word == "true";
    else if (keyword == "ties" && tie)
      ties = *tie;
    else
      return parser.emitError(loc)
             << "expected signed, zero or complement = true|false or ties = "
                "even|down|up";
  }
  return success();
}

Attribute FormatAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  std::string keyword;
  if (parser.parseLess() || parser.parseKeywordOrString(&keyword))
    return {};
  if (keyword != "exponent") {
    FormatAttr known = getNamed(parser.getContext(), keyword);
    if (!known) {
      parser.emitError(loc) << unknown(keyword);
      return {};
    }
    return failed(parser.parseGreater()) ? FormatAttr() : known;
  }
  unsigned exponent, mantissa;
  int bias;
  bool inf, hasSign = true, hasZero = true, complement = false;
  StringRef nan;
  Tie ties = Tie::Even;
  if (parser.parseEqual() || parser.parseInteger(exponent) ||
      parser.parseComma() || parser.parseKeyword("mantissa") ||
      parser.parseEqual() || parser.parseInteger(mantissa) ||
      parser.parseComma() || parser.parseKeyword("bias") ||
      parser.parseEqual() || parser.parseInteger(bias) || parser.parseComma() ||
      parseFlag(parser, "inf", inf) || parser.parseComma() ||
      parseWord(parser, "nan", nan))
    return {};
  std::optional<Nan> nanCode = symbolizeNan(nan);
  if (!nanCode) {
    parser.emitError(loc) << "expected nan = none|all_ones|ieee, got " << nan;
    return {};
  }
  if (parseRare(parser, hasSign, hasZero, ties, complement) ||
      parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(loc); }, parser.getContext(),
                    exponent, mantissa, bias, inf, *nanCode, hasSign, hasZero,
                    ties, complement, /*book=*/0u);
}

void FormatAttr::print(AsmPrinter &printer) const {
  if (StringRef name = getKnownName(); !name.empty()) {
    printer << "<" << name << ">";
    return;
  }
  printer << "<exponent = " << getExponent() << ", mantissa = " << getMantissa()
          << ", bias = " << getBias()
          << ", inf = " << (getInf() ? "true" : "false")
          << ", nan = " << stringifyNan(getNan());
  if (!getHasSign())
    printer << ", signed = false";
  if (!getHasZero())
    printer << ", zero = false";
  if (getTies() != Tie::Even)
    printer << ", ties = " << stringifyTie(getTies());
  if (getComplement())
    printer << ", complement = true";
  printer << ">";
}
