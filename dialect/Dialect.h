// The altgrad dialect: formats, types, and the operations of rule, step, sweep.
#ifndef ALTGRAD_DIALECT_DIALECT_H
#define ALTGRAD_DIALECT_DIALECT_H

#include "altgrad/format.h"
#include "dialect/Roles.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialect/Dialect.h.inc"
#include "dialect/Enums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialect/Attributes.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialect/Types.h.inc"

namespace altgrad {
class YieldOp;
class CommitOp;
class EmitOp;

/// What a row of the table is: the finest set of elements, but for a column, that something of a step is one for.
enum class RowKind { Tensor, Unit, MatrixRow };

/// Memory that an operation of a phase touches.
struct MemoryAccess {
  mlir::Value memory;        ///< an argument of the step or a list in the workspace; null: a word
  Space space = Space::Step; ///< of the word
};
/// Of those that are lists of tensors.
double bytesPerElement(llvm::ArrayRef<MemoryAccess> accesses);
/// `element`, or a vector of as many as `shape` has.
mlir::Type withElementType(mlir::Type shape, mlir::Type element);
/// The type of squares that have the format of a list; any other type as it is.
mlir::Type getSquareType(mlir::Type type);
/// Which items a sweep walks over that stores values of a block each; `ofColumns` to a list per column.
Walk getWalk(BlockAttr block, Walk ofColumns = Walk::Columns);
/// The type of a product of two matrices; null: they do not fit.
TensorsType getProductType(TensorsType left, bool leftTransposed, TensorsType right, bool rightTransposed);
/// Whether this is found of such a matrix: of squares, and of the elements of a tensor their orthonormal basis.
bool canFactorize(ProductForm form, TensorsType type);
/// Whether a reduction is of truth values.
inline bool isBoolean(Reduction kind) { return kind == Reduction::And || kind == Reduction::Count; }
/// How what a sweep has reduced is combined: counts are added.
inline Reduction getFoldKind(Reduction kind) { return kind == Reduction::Count ? Reduction::Add : kind; }
} // namespace altgrad

#include "dialect/PhaseWork.h.inc"

#define GET_OP_CLASSES
#include "dialect/Ops.h.inc"

namespace altgrad {
/// The arguments of a rule and of a step in parentheses, and the body that they are arguments of.
mlir::ParseResult parseRuleSignature(mlir::OpAsmParser &parser, mlir::ArrayAttr &signature, mlir::Region &body);
void printRuleSignature(mlir::OpAsmPrinter &printer, RuleOp rule, mlir::ArrayAttr, mlir::Region &body);
mlir::ParseResult parseStepSignature(mlir::OpAsmParser &parser, mlir::ArrayAttr &signature, mlir::Region &body);
void printStepSignature(mlir::OpAsmPrinter &printer, StepOp step, mlir::ArrayAttr, mlir::Region &body);

/// Emits an error and fails unless `op` is on the list of `arith` and `math` operations that rules and steps have.
mlir::LogicalResult verifyArithmetic(mlir::Operation &op);
/// The same where `op` may not compute elements.
mlir::LogicalResult verifyElement(mlir::Operation &op);

/// `1x32`, with names of what is larger, and `block<1x32>`, `unit`, `tensor`, `step`.
mlir::ParseResult parseBlockName(mlir::AsmParser &parser, Scope &scope, int64_t &rows, int64_t &columns);
void printBlockName(mlir::AsmPrinter &printer, Scope scope, int64_t rows, int64_t columns);
mlir::ParseResult parseExtents(mlir::AsmParser &parser, BlockAttr &block);
/// The types of a product's operands and result: one where all are alike.
mlir::ParseResult parseProductTypes(mlir::OpAsmParser &parser, mlir::Type &left, mlir::Type &right, mlir::Type &into);
void printProductTypes(mlir::OpAsmPrinter &printer, mlir::Operation *, mlir::Type left, mlir::Type right,
                       mlir::Type into);
/// "x rows" behind "rows", or "x columns" behind "columns".
mlir::ParseResult parseSquare(mlir::AsmParser &parser, llvm::StringRef side, bool &ofRows);
void printExtents(mlir::AsmPrinter &printer, BlockAttr block);
mlir::ParseResult parseOver(mlir::AsmParser &parser, BlockAttr &over);
void printOver(mlir::AsmPrinter &printer, mlir::Operation *, BlockAttr over);

bool isIdentifier(llvm::StringRef name);

/// There is a name for each argument of a rule or a step. Names become symbols, PTX entries and words of a manifest:
/// letters, digits and underscores.
mlir::LogicalResult verifyNames(mlir::Operation *op, llvm::StringRef symbol, mlir::ArrayAttr signature);

/// The least and the most elements that share one stored or reduced value.
constexpr unsigned minBlock = ALTGRAD_BLOCK_LEAST, maxBlock = ALTGRAD_BLOCK_MOST;
/// Of a column.
constexpr unsigned columnBlock = 32;
/// The rows and columns of squares, the largest of which is a tile; of the others a tile has several.
constexpr unsigned squareBlock = 128;
constexpr unsigned squareBlocks[] = {16, 32, squareBlock};
/// Whether so many rows and columns are a square.
inline bool isSquareBlock(int64_t side) { return llvm::is_contained(squareBlocks, side); }
/// Fails after an error if no target has such blocks.
mlir::LogicalResult verifySupportedBlock(BlockAttr block, llvm::function_ref<mlir::InFlightDiagnostic()> emitError);
/// Whether it is a reduction over columns or squares: over what only a tile holds.
bool isOverTile(mlir::Operation *op);
/// Whether it is the number of elements of a unit, so that the step's rows are units.
inline bool isUnitLength(mlir::Operation *op) {
  auto dim = mlir::dyn_cast_or_null<DimOp>(op);
  return dim && dim.getDimension() == Dimension::Unit;
}
/// Columns of a tile, which blocks of rows must not be cut by. It has as many rows as column blocks, unless it is a
/// square.
constexpr int64_t tileColumns = ALTGRAD_TILE_COLUMNS;
static_assert(columnBlock * tileColumns == ALTGRAD_CHUNK && squareBlock == tileColumns);
constexpr int64_t getTileRows(int64_t blockRows) { return std::max<int64_t>(blockRows, columnBlock); }
/// Whether tiles would cut its blocks; or its bytes, unless it is stored behind the reduction over their blocks.
bool isCutByTiles(TensorsType type);
/// Whether a block may have so many elements: a power of two from minBlock to maxBlock.
bool isBlockSize(int64_t block);

/// A line for each known format: its name, bits, smallest and largest numbers.
std::string listFormats();

/// "14" or "14.125".
std::string formatBytes(double bytes);

/// The most operations of a rule or a step, and the most of those that become long
/// code: compile time is bounded by it. So it is by the lists and reductions of a set.
constexpr size_t maxOperations = 4096;
constexpr size_t maxOperationsOfSet = 128; // as many more for each set: 64 sets of a stock rule with statistics fit
constexpr size_t maxFunctions = 512;
constexpr size_t maxLists = 128;
constexpr size_t maxReductions = 32;     // of a rule
constexpr size_t maxStepReductions = 64; // which has others than the rule: norms, what checks products
constexpr size_t maxRunReductions = 128;
mlir::LogicalResult verifyLength(mlir::Operation *op, mlir::Block &body, size_t most = maxOperations);
/// Emits an error and fails if sweeps or phases read an old content that has been overwritten.
mlir::LogicalResult verifyEffects(StepOp step);

/// Whether `update` has the operands that `rule` wants under its options; emits
/// an error if not.
mlir::LogicalResult verifyUpdate(UpdateOp update, RuleOp rule);

/// An attribute of an iteration, or of an operation beside it, by a word among a rule's options: "steps=8", "in=f32",
/// "length=added", "equal=rows", "batches=none", "scale=match_rms", "decay=cautious", "coefficients=you", or
/// "coefficients=3.4445/-4.775/2.0315", with "|" between rows. Null: it is none.
std::optional<mlir::NamedAttribute> readIterationWord(mlir::MLIRContext *context, llvm::StringRef word);
} // namespace altgrad

#endif // ALTGRAD_DIALECT_DIALECT_H
