// Which arithmetic a rule or a step may hold, and what its elements may be.
#include "dialect/Arithmetic.h"
#include "dialect/Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/StringMap.h"
#include <cmath>

using namespace mlir;
using namespace altgrad;

static constexpr OperationFacts real(double (*real)(double, double, double), unsigned flops = 0) {
  return {flops, /*functions=*/0, /*isF64=*/false, /*isF32=*/false, real, nullptr};
}
static constexpr OperationFacts function(double (*real)(double, double, double), bool isF64 = false) {
  return {/*flops=*/0, /*functions=*/1, isF64, /*isF32=*/false, real, nullptr};
}
// Of codegen/numerics/Element*.h, with what an element costs there.
static constexpr OperationFacts element(double (*real)(double, double, double), unsigned flops, bool isF32 = true) {
  return {flops, /*functions=*/1 + flops / 16, /*isF64=*/false, isF32, real, nullptr};
}
static constexpr OperationFacts integer(uint64_t (*integer)(uint64_t, uint64_t)) {
  return {0, 0, false, false, nullptr, integer};
}

static double extreme(double a, double b, bool most) {
  return std::isnan(a) || std::isnan(b) ? std::nan("") : (a < b) == most ? b : a;
}
static double binade(double a, double, double) {
  return std::isfinite(a) && a != 0 ? std::exp2(std::ilogb(a)) : std::fabs(a);
}

// Every operation has the same bits on every target. Adding one: a row here, its
// lowering in codegen/numerics where a target has none, and tools/guides.py.
static constexpr AllowedOperation operations[] = {
    {"arith.constant", "f32, f64, i64, i1", "a number that is written in the text", "%c = constant 1.0e-3 : f64"},
    {"arith.addf", "f32, f64", "a + b", "%c = addf %w, %g : f32", real([](auto a, auto b, auto) { return a + b; }, 1)},
    {"arith.subf", "f32, f64", "a - b", "%c = subf %w, %g : f32", real([](auto a, auto b, auto) { return a - b; }, 1)},
    {"arith.mulf", "f32, f64", "a * b", "%c = mulf %w, %g : f32", real([](auto a, auto b, auto) { return a * b; }, 1)},
    {"arith.divf", "f32, f64", "a / b", "%c = divf %w, %g : f32", real([](auto a, auto b, auto) { return a / b; }, 1)},
    {"arith.negf", "f32, f64", "-a", "%c = negf %g : f32", real([](auto a, auto, auto) { return -a; })},
    {"arith.minimumf", "f32, f64", "the smaller number; NaN if either is NaN", "%c = minimumf %w, %g : f32",
     real([](auto a, auto b, auto) { return extreme(a, b, /*most=*/false); })},
    {"arith.maximumf", "f32, f64", "the larger number; NaN if either is NaN", "%c = maximumf %w, %g : f32",
     real([](auto a, auto b, auto) { return extreme(a, b, /*most=*/true); })},
    {"arith.cmpf", "f32, f64 to i1",
     "a comparison: oeq, one, olt, ole, ogt, oge and ord are false if either number is NaN; "
     "ueq, une, ult, ule, ugt, uge and uno are then true",
     "%c = cmpf olt, %w, %g : f32"},
    {"arith.cmpi", "i64, i1 to i1", "a comparison: eq, ne, signed slt, sle, sgt, sge, unsigned ult, ule, ugt, uge",
     "%c = cmpi sgt, %t, %t : i64"},
    {"arith.select", "i1 and two of f32, f64, i64, i1", "the second operand where the first is true, else the third",
     "%c = select %flag, %w, %g : f32"},
    {"arith.truncf", "f64 to f32", "rounds a scalar to the nearest f32; ties to even", "%c = truncf %lr : f64 to f32",
     real([](auto a, auto, auto) { return a; })},
    {"arith.extf", "f32 to f64", "the same number as f64; for scalars, as elements stay f32",
     "%s = altgrad.reduce add %g over tensor : f32\n%c = extf %s : f32 to f64",
     real([](auto a, auto, auto) { return a; })},
    {"arith.addi", "i64", "a + b, modulo 2^64", "%c = addi %t, %t : i64",
     integer([](auto a, auto b) { return a + b; })},
    {"arith.subi", "i64", "a - b, modulo 2^64", "%c = subi %t, %t : i64",
     integer([](auto a, auto b) { return a - b; })},
    {"arith.muli", "i64", "a * b, modulo 2^64", "%c = muli %t, %t : i64",
     integer([](auto a, auto b) { return a * b; })},
    {"arith.andi", "i64, i1", "bitwise and", "%c = andi %flag, %flag : i1",
     integer([](auto a, auto b) { return a & b; })},
    {"arith.ori", "i64, i1", "bitwise or", "%c = ori %flag, %flag : i1", integer([](auto a, auto b) { return a | b; })},
    {"arith.xori", "i64, i1", "bitwise exclusive or", "%c = xori %flag, %flag : i1",
     integer([](auto a, auto b) { return a ^ b; })},
    {"arith.shli", "i64", "shifts left by a constant of 0 to 63", "%n = constant 3 : i64\n%c = shli %t, %n : i64",
     integer([](auto a, auto b) { return a << (b & 63); })},
    {"arith.shrui", "i64", "shifts right by a constant of 0 to 63 and fills with zeros",
     "%n = constant 3 : i64\n%c = shrui %t, %n : i64", integer([](auto a, auto b) { return a >> (b & 63); })},
    {"arith.sitofp", "i64 to f32, f64", "the nearest number to a signed integer", "%c = sitofp %t : i64 to f64"},
    {"arith.fptosi", "f32, f64 to i64", "rounds a scalar toward zero; not allowed for elements",
     "%c = fptosi %lr : f64 to i64"},
    {"math.fma", "f32, f64", "a * b + c with one rounding", "%c = math.fma %w, %g, %m : f32", real(nullptr, 2)},
    {"math.sqrt", "f32, f64", "the square root, rounded once", "%c = math.sqrt %m : f32",
     real([](auto a, auto, auto) { return std::sqrt(a); }, 1)},
    {"math.absf", "f32, f64", "the magnitude", "%c = math.absf %g : f32",
     real([](auto a, auto, auto) { return std::fabs(a); })},
    {"math.floor", "f32, f64", "the largest whole number that is at most a", "%c = math.floor %g : f32",
     real([](auto a, auto, auto) { return std::floor(a); })},
    {"math.copysign", "f32, f64",
     "the magnitude of the first operand with the sign of the second; a NaN counts as positive",
     "%c = math.copysign %w, %g : f32", function([](auto a, auto b, auto) { return std::copysign(a, b); })},
    {"math.fpowi", "f64 with an exponent in i64", "a power, by repeated squaring", "%c = math.fpowi %lr, %t : f64, i64",
     function(nullptr, /*isF64=*/true)},
    {"math.log", "f32, f64", "the natural logarithm, to within 1 unit in the last place, of f64 2",
     "%c = math.log %w : f32", element([](auto a, auto, auto) { return std::log(a); }, 32, /*isF32=*/false)},
    {"math.exp", "f32, f64", "the exponential function, to within 1 unit in the last place, of f64 2",
     "%c = math.exp %w : f32", element([](auto a, auto, auto) { return std::exp(a); }, 32, /*isF32=*/false)},
    {"math.exp2", "f32", "2^a; this and what follows to within 1 unit in the last place", "%c = math.exp2 %w : f32",
     element([](auto a, auto, auto) { return std::exp2(a); }, 35)},
    {"math.expm1", "f32", "e^a - 1", "%c = math.expm1 %w : f32",
     element([](auto a, auto, auto) { return std::expm1(a); }, 40)},
    {"math.log2", "f32", "the logarithm to the base 2", "%c = math.log2 %w : f32",
     element([](auto a, auto, auto) { return std::log2(a); }, 38)},
    {"math.log1p", "f32", "ln(1 + a)", "%c = math.log1p %w : f32",
     element([](auto a, auto, auto) { return std::log1p(a); }, 42)},
    {"math.powf", "f32", "a^b, as C has it: NaN of a negative number to a power that is not whole",
     "%c = math.powf %w, %g : f32", element([](auto a, auto b, auto) { return std::pow(a, b); }, 101)},
    {"math.rsqrt", "f32", "1 / sqrt(a)", "%c = math.rsqrt %w : f32",
     element([](auto a, auto, auto) { return 1 / std::sqrt(a); }, 12)},
    {"math.cbrt", "f32", "the cube root", "%c = math.cbrt %w : f32",
     element([](auto a, auto, auto) { return std::cbrt(a); }, 29)},
    {"math.tanh", "f32", "the hyperbolic tangent", "%c = math.tanh %w : f32",
     element([](auto a, auto, auto) { return std::tanh(a); }, 52)},
    {"altgrad.sigmoid", "f32", "1 / (1 + e^-a)", "%c = altgrad.sigmoid %w : f32",
     element([](auto a, auto, auto) { return 1 / (1 + std::exp(-a)); }, 49)},
    {"altgrad.softplus", "f32", "ln(1 + e^a)", "%c = altgrad.softplus %w : f32",
     element([](auto a, auto, auto) { return std::fmax(a, 0) + std::log1p(std::exp(-std::fabs(a))); }, 84)},
    {"math.erf", "f32", "the error function", "%c = math.erf %w : f32",
     element([](auto a, auto, auto) { return std::erf(a); }, 68)},
    {"math.sin", "f32", "the sine; of every finite number, however large", "%c = math.sin %w : f32",
     element([](auto a, auto, auto) { return std::sin(a); }, 42)},
    {"math.cos", "f32", "the cosine; of every finite number, however large", "%c = math.cos %w : f32",
     element([](auto a, auto, auto) { return std::cos(a); }, 42)},
    {"math.atan2", "f32", "the angle of the point at height a and width b, from -pi to pi, as C has it",
     "%c = math.atan2 %w, %g : f32", element([](auto a, auto b, auto) { return std::atan2(a, b); }, 37)},
    {"altgrad.reduce", "f32, i1",
     "over tensor: add, sumsq (sum of squares), max, absmax (the largest magnitude), and (of i1) or count (of i1, "
     "as f32) of all elements of this tensor; over unit: of those of one index of dimension 0; over block<1x32>: add, "
     "sumsq, max or absmax of each run of 32 (16 to 2048) neighbours, "
     "block<32x1>: of 32 rows of a column, block<128x128>: of a square, of 16, 32 or 128 rows",
     "%c = altgrad.reduce sumsq %g over tensor : f32"},
    {"altgrad.lerp", "f32, f64", "a + w * (b - a), from the nearer end as torch.lerp has it",
     "%c = altgrad.lerp %m to %g by %w : f32", real([](auto a, auto b, auto c) { return a + c * (b - a); })},
    {"altgrad.binade", "f32", "the largest power of two that is at most the magnitude", "%c = altgrad.binade %g : f32",
     real(binade)},
    {"altgrad.random", "f32",
     "a random number for this element in this step: uniform, from 0 to 1, or normal, of mean 0 and variance 1; two "
     "keys "
     "of 0 to 31 give independent ones",
     "%c = altgrad.random normal key(1) : f32"},
    {"altgrad.index", "i64", "the place of this element in its whole tensor, from 0", "%c = altgrad.index : i64"},
    {"altgrad.tag", "i64", "the number that the caller gave this tensor", "%c = altgrad.tag : i64"},
    {"altgrad.dim", "i64",
     "an extent of this tensor: columns (the last dimension), rows (the one before) or batch (the product of the "
     "others); "
     "or unit, the elements of one index of dimension 0",
     "%c = altgrad.dim columns : i64"},
    {"altgrad.match_norm", "f32", "x |y| / (|x| + 1e-10), by the norms of tensors",
     "%c = altgrad.match_norm %g as %w : f32",
     real([](auto a, auto b, auto) { return a * std::fabs(b) / (std::fabs(a) + 1e-10); })},
    {"altgrad.row_mean_square", "f32", "the mean of the squares of this unit: of a matrix, of this row",
     "%c = altgrad.row_mean_square %g : f32", real([](auto a, auto, auto) { return a * a; })},
    {"altgrad.scale_by_shape", "f64",
     "original: sqrt(max(1, rows / columns)); match_rms: 0.2 sqrt(max(rows, columns)); unclamped: sqrt(rows / "
     "columns); "
     "spectral: sqrt(max(rows, columns)); transposed: of the transpose",
     "%c = altgrad.scale_by_shape original : f64"},
    {"altgrad.apply_step", "f32, by f64", "the weight (1 - decay), minus rate times the direction",
     "%c = altgrad.apply_step %w along %m rate(%lr) decay(%lr) : f32"},
    {"altgrad.orthogonalize", "f32",
     "the nearest matrix with orthonormal rows or columns, by a Newton-Schulz iteration",
     "%c = altgrad.orthogonalize %g coefficients<jordan> steps<5> in<bf16> length<clamped> eps(%lr)"},
    {"altgrad.matrix", "f32 to tensors", "all elements of this tensor as a matrix of bf16, f16 or f32",
     "%x = altgrad.matrix %g : !altgrad.tensors<bf16>"},
    {"altgrad.gram", "tensors to squares", "a matrix times its transpose, on the shorter side",
     "%x = altgrad.matrix %g : !altgrad.tensors<bf16>\n%a = altgrad.gram %x : !altgrad.tensors<bf16>"},
    {"altgrad.product", "squares and squares or tensors", "by * (a square times a matrix) + by * a third, rounded once",
     "%x = altgrad.matrix %g : !altgrad.tensors<bf16>\n%a = altgrad.gram %x : !altgrad.tensors<bf16>\n"
     "%y = altgrad.product %a, %x by 0.5 plus %x by 1.5 : !altgrad.tensors<bf16>"},
    {"altgrad.matmul", "tensors",
     "the product of two matrices, of the tensor or of its squares, either of them transposed",
     "%x = altgrad.matrix %g : !altgrad.tensors<f32>\n%l = altgrad.matmul %x, %x transposed : !altgrad.tensors<f32>, "
     "!altgrad.tensors<f32> to !altgrad.tensors<f32 per rows x rows>"},
    {"altgrad.factorize", "tensors",
     "eigenbasis, order by a basis, orthonormal, inverse_root or identity of a square matrix",
     "%x = altgrad.matrix %g : !altgrad.tensors<f32>\n%l = altgrad.matmul %x, %x transposed : !altgrad.tensors<f32>, "
     "!altgrad.tensors<f32> to !altgrad.tensors<f32 per rows x rows>\n"
     "%q = altgrad.factorize eigenbasis %l : !altgrad.tensors<f32 per rows x rows>"},
    {"altgrad.entry", "tensors to f32", "this element of a matrix",
     "%x = altgrad.matrix %g : !altgrad.tensors<bf16>\n%c = altgrad.entry %x : !altgrad.tensors<bf16>"},
};

llvm::ArrayRef<AllowedOperation> altgrad::allowedOperations() { return operations; }

const AllowedOperation *altgrad::findAllowedOperation(StringRef name) {
  static const llvm::StringMap<const AllowedOperation *> rows = [] {
    llvm::StringMap<const AllowedOperation *> rows;
    for (const AllowedOperation &row : operations)
      rows[row.name] = &row;
    return rows;
  }();
  return rows.lookup(name);
}

StringRef altgrad::getRowName(Operation &op) {
  auto kept = dyn_cast<FunctionOp>(op);
  return kept ? kept.getFunction() : op.getName().getStringRef();
}

bool altgrad::isKeptFunction(StringRef name) {
  const AllowedOperation *row = findAllowedOperation(name);
  return row && row->facts.functions && row->facts.real && name.starts_with("math.");
}

std::string altgrad::listOperations() {
  std::string text;
  llvm::raw_string_ostream out(text);
  for (const AllowedOperation &row : operations) {
    std::string example = row.example.str();
    for (size_t at; (at = example.find('\n')) != std::string::npos;)
      example.replace(at, 1, "; ");
    out << row.name << '\t' << row.types << '\t' << row.meaning << '\t' << example << '\n';
  }
  return text;
}

// A shift beyond the width and a broken promise have no defined bits.
static LogicalResult verifyWrapping(Operation &op) {
  if (isa<arith::ShLIOp, arith::ShRUIOp>(op)) {
    APInt distance;
    // body_c9
    if (!matchPattern(op.getOperand(1), m_ConstantInt(&distance)) || distance.uge(64))
      return op.emitOpError("shifts by something other than a constant of 0 to 63");
  }
  auto flags = dyn_cast<arith::ArithIntegerOverflowFlagsInterface>(op);
  auto shift = dyn_cast<arith::ShRUIOp>(op);
  // body_c10
  if ((flags && flags.getOverflowAttr().getValue() != arith::IntegerOverflowFlags::none) ||
      (shift && shift.getIsExact()))
    return op.emitOpError("promises that no bit is lost; integers wrap around");
  return success();
}

LogicalResult altgrad::verifyArithmetic(Operation &op) {
  const AllowedOperation *row = findAllowedOperation(op.getName().getStringRef());
  // body_c2
  if (op.getName().getDialectNamespace() == "altgrad" || !row)
    return op.emitOpError() << "is not on the list of allowed operations"
                            << describeReplacement(op.getName().getStringRef());
  if (auto fast = dyn_cast<arith::ArithFastMathInterface>(op))
    // body_c3
    if (auto flags = fast.getFastMathFlagsAttr(); flags && flags.getValue() != arith::FastMathFlags::none)
      return op.emitOpError("has fast-math flags; leave them out");
  // body_c4
  if (auto round = dyn_cast<arith::TruncFOp>(op); round && round.getRoundingmode())
    return op.emitOpError("has a rounding mode; arithmetic rounds to nearest even");
  for (Type type :
       llvm::concat<const Type>(SmallVector<Type>(op.getOperandTypes()), SmallVector<Type>(op.getResultTypes())))
    // body_c5
    if (!type.isF32() && !type.isF64() && !type.isInteger(64) && !type.isInteger(1)) {
      std::string name; // a diagnostic would put it in quotes
      llvm::raw_string_ostream(name) << type;
      return op.emitOpError() << "computes with a type other than f32, f64, i64 and i1: " << name
                              << "; elements are f32, scalars f64, and the storage line says formats";
    }
  // body_c6
  if (row->facts.isF64 && !op.getResult(0).getType().isF64())
    return op.emitOpError("exists for f64 scalars only; of elements write math.powf, or products");
  if (row->facts.isF32 && !op.getResult(0).getType().isF32())
    return op.emitOpError("exists for f32 only; of a scalar in f64 write it between truncf and extf");
  // body_c7
  if (auto power = dyn_cast<math::FPowIOp>(op); power && !power.getRhs().getType().isInteger(64))
    return op.emitOpError("has an exponent that is not i64; the step count is one, and constant 2 : i64");
  return verifyWrapping(op);
}

LogicalResult altgrad::verifyElement(Operation &op) {
  // body_c11
  if (isa<arith::FPToSIOp>(op))
    return op.emitOpError("makes an integer of an element; integers are of altgrad.index and scalars");
  for (Type type : op.getResultTypes())
    // body_c8
    if (!type.isF32() && !type.isInteger(64) && !type.isInteger(1))
      return op.emitOpError() << "computes elements in " << type << "; elements are f32, i64 or i1";
  return success();
}
