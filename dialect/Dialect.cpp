// Registration of the dialect; its types in text, and parts of its operations.
#include "dialect/Dialect.h"
#include "dialect/Coefficients.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

#include "dialect/Dialect.cpp.inc"
#include "dialect/Enums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialect/Attributes.cpp.inc"

//===-- What the formats of types do not say -------------------------------===//

namespace altgrad {
// A name of the table, or the words of an attribute.
static mlir::ParseResult parseFormatName(mlir::AsmParser &parser, FormatAttr &format) {
  llvm::SMLoc loc = parser.getCurrentLocation();
  llvm::StringRef name;
  if (failed(parser.parseOptionalKeyword(&name)))
    return parser.parseAttribute(format);
  format = FormatAttr::getNamed(parser.getContext(), name);
  if (!format)
    return parser.emitError(loc) << FormatAttr::unknown(name);
  return mlir::success();
}

static void printFormatName(mlir::AsmPrinter &printer, FormatAttr format) {
  if (llvm::StringRef name = format.getKnownName(); !name.empty())
    printer << name;
  else
    printer.printAttribute(format);
}

static mlir::ParseResult parsePacked(mlir::AsmParser &, bool &packed) { return packed = true, mlir::success(); }
static void printPacked(mlir::AsmPrinter &, bool) {}
} // namespace altgrad

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

//===-- Types ---------------------------------------------------------------===//

bool altgrad::isBlockSize(int64_t block) {
  return llvm::isPowerOf2_64(block) && block >= minBlock && block <= maxBlock;
}

LogicalResult altgrad::TensorsType::verify(llvm::function_ref<InFlightDiagnostic()> emitError, FormatAttr format,
                                           BlockAttr block, bool packed) {
  // tensors_c1
  if (failed(verifySupportedBlock(block, emitError)))
    return failure();
  // tensors_c2
  if (packed && (!format.toFormat().canPack() || !block.isElement()))
    return emitError() << "codes of 4 bits are packed, one for each element; " << format << " has " << format.getBits()
                       << " bits, and " << (block.isElement() ? "1 element has" : "several elements share") << " one";
  return success();
}

//===-- Operations, and what their formats do not say ---------------------------===//

using namespace altgrad;

// `value to target : type`; the value is reals where the target holds f32.
static ParseResult parseWrites(OpAsmParser &parser, SmallVectorImpl<OpAsmParser::UnresolvedOperand> &values,
                               SmallVectorImpl<Type> &valueTypes,
                               SmallVectorImpl<OpAsmParser::UnresolvedOperand> &targets, SmallVectorImpl<Type> &types) {
  return parser.parseCommaSeparatedList([&]() -> ParseResult {
    Type &type = types.emplace_back();
    if (parser.parseOperand(values.emplace_back()) || parser.parseKeyword("to") ||
        parser.parseOperand(targets.emplace_back()) || parser.parseColonType(type))
      return failure();
    auto tensors = dyn_cast<TensorsType>(type);
    valueTypes.push_back(tensors && tensors.getFormat().isF32() ? Type(RealsType::get(parser.getContext())) : type);
    return success();
  });
}

static void printWrites(OpAsmPrinter &printer, CommitOp commit, ValueRange values, TypeRange, ValueRange targets,
                        TypeRange types) {
  auto print = [&](auto write) {
    auto [value, target, type] = write;
    printer.printNewline();
    printer << "    " << value << " to " << target << " : " << type;
  };
  llvm::interleave(llvm::zip(values, targets, types), print, [&] { printer << ","; });
  if (commit.getCondition() && llvm::equal(targets, commit.getAlwaysTargets()))
    printer.printNewline(); // before `if`
}

// ` draw(%r)`, or ` draw(%r : i32)`: an i16 goes without saying.
static ParseResult parseDraw(OpAsmParser &parser, std::optional<OpAsmParser::UnresolvedOperand> &draw, Type &type) {
  if (parser.parseOptionalKeyword("draw"))
    return success();
  type = parser.getBuilder().getIntegerType(16);
  return failure(parser.parseLParen() || parser.parseOperand(draw.emplace()) ||
                 (succeeded(parser.parseOptionalColon()) && parser.parseType(type)) || parser.parseRParen());
}

static void printDraw(OpAsmPrinter &printer, QuantizeOp, Value draw, Type type) {
  if (!draw)
    return;
  printer << "draw(" << draw;
  if (!type.isInteger(16))
    printer << " : " << type;
  printer << ")";
}

// `%m, %d: f64`: an f32 goes without saying.
static ParseResult parseScalars(OpAsmParser &parser, SmallVectorImpl<OpAsmParser::UnresolvedOperand> &values,
                                SmallVectorImpl<Type> &types) {
  auto parse = [&]() -> ParseResult {
    OptionalParseResult found = parser.parseOptionalOperand(values.emplace_back());
    if (!found.has_value() && values.size() == 1) { // none at all
      values.clear();
      return success();
    }
    if (!found.has_value())
      return parser.emitError(parser.getCurrentLocation(), "expected a value behind the comma");
    types.push_back(parser.getBuilder().getF32Type());
    return failure(failed(*found) || (succeeded(parser.parseOptionalColon()) && parser.parseType(types.back())));
  };
  return parser.parseCommaSeparatedList(parse);
}

static void printScalars(OpAsmPrinter &printer, Operation *, ValueRange values, TypeRange) {
  llvm::interleaveComma(values, printer, [&](Value value) {
    printer << value;
    if (!value.getType().isF32())
      printer << ": " << value.getType();
  });
}

// ` {amsgrad, "steps=8"}`, or nothing.
static ParseResult parseOptions(OpAsmParser &parser, ArrayAttr &options) {
  SmallVector<Attribute> words;
  Builder &builder = parser.getBuilder();
  auto option = [&]() -> ParseResult {
    std::string word;
    if (parser.parseKeywordOrString(&word))
      return failure();
    words.push_back(builder.getStringAttr(word));
    return success();
  };
  if (succeeded(parser.parseOptionalLBrace()) && (parser.parseCommaSeparatedList(option) || parser.parseRBrace()))
    return failure();
  options = builder.getArrayAttr(words);
  return success();
}

static void printOptions(OpAsmPrinter &printer, UpdateOp, ArrayAttr options) {
  if (options.empty())
    return;
  printer << " {";
  llvm::interleaveComma(options.getAsRange<StringAttr>(), printer,
                        [&](StringAttr word) { printer.printKeywordOrString(word.getValue()); });
  printer << "}";
}

static bool nameByLocation(Operation *op, OpAsmSetValueNameFn set) {
  auto fused = dyn_cast<FusedLoc>(op->getLoc());
  auto names = fused ? dyn_cast_if_present<ArrayAttr>(fused.getMetadata()) : ArrayAttr();
  if (!names || names.size() != op->getNumResults())
    return false;
  for (auto [result, name] : llvm::zip(op->getResults(), names.getAsRange<StringAttr>()))
    set(result, name.getValue());
  return true;
}

#define GET_OP_CLASSES
#include "dialect/Ops.cpp.inc"
