// Questions about rules, and their verification: which roles, which operations.
#include "dialect/Arithmetic.h"
#include "dialect/Entries.h"
#include "dialect/RoleTypes.h"
#include "dialect/Variance.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/ScopedPrinter.h"

using namespace mlir;
using namespace altgrad;

//===-- Questions -----------------------------------------------------------===//

SmallVector<BlockArgument> RuleOp::getByRole(Role role) {
  return llvm::filter_to_vector(getBody().getArguments(),
                                [&](BlockArgument argument) { return getRole(argument) == role; });
}

YieldOp RuleOp::getYield() { return cast<YieldOp>(getBody().front().getTerminator()); }

// What andi, ori or xori gives when one or both of its operands are known.
static std::optional<bool> decideLogic(Operation &op, std::optional<bool> a, std::optional<bool> b) {
  if (isa<arith::AndIOp>(op) && ((a && !*a) || (b && !*b)))
    return false;
  if (isa<arith::OrIOp>(op) && ((a && *a) || (b && *b)))
    return true;
  if (!a || !b)
    return std::nullopt;
  return isa<arith::AndIOp>(op) ? *a && *b : isa<arith::OrIOp>(op) ? *a || *b : *a != *b;
}

DenseMap<Value, bool> RuleOp::decide(ArrayRef<StringRef> options) {
  DenseMap<Value, bool> known;
  for (BlockArgument argument : getByRole(Role::option))
    known[argument] = llvm::is_contained(options, getName(argument)) || cast<BoolAttr>(getDefault(argument)).getValue();
  auto look = [&](Value value) -> std::optional<bool> {
    auto it = known.find(value);
    return it == known.end() ? std::nullopt : std::optional(it->second);
  };
  for (Operation &op : getBody().front()) {
    std::optional<bool> value;
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      if (auto boolean = dyn_cast<BoolAttr>(constant.getValue()))
        value = boolean.getValue();
    } else if (isa<arith::AndIOp, arith::OrIOp, arith::XOrIOp>(op) && op.getResult(0).getType().isInteger(1)) {
      value = decideLogic(op, look(op.getOperand(0)), look(op.getOperand(1)));
    } else if (auto select = dyn_cast<arith::SelectOp>(op)) {
      if (auto choice = look(select.getCondition()))
        value = look(*choice ? select.getTrueValue() : select.getFalseValue());
    }
    if (value)
      known[op.getResult(0)] = *value;
  }
  return known;
}

// What is behind choices whose conditions are decided.
static Value foldSelects(Value value, const DenseMap<Value, bool> &decided) {
  while (auto select = value.getDefiningOp<arith::SelectOp>()) {
    auto choice = decided.find(select.getCondition());
    if (choice == decided.end())
      break;
    value = choice->second ? select.getTrueValue() : select.getFalseValue();
  }
  return value;
}

bool RuleOp::draws(ArrayRef<StringRef> options) {
  DenseMap<Value, bool> known = decide(options);
  SetVector<Value> needed;
  for (Value value : getYield().getOperands())
    needed.insert(foldSelects(value, known));
  for (size_t i = 0; i < needed.size(); ++i) {
    Operation *op = needed[i].getDefiningOp();
    if (isa_and_present<RandomOp>(op))
      return true;
    for (Value operand : op ? op->getOperands() : OperandRange(nullptr, 0))
      needed.insert(foldSelects(operand, known));
  }
  return false;
}

// Whether some new value is computed from a state, once choices are decided.
static bool isRead(BlockArgument state, RuleOp rule, const DenseMap<Value, bool> &decided) {
  YieldOp yield = rule.getYield();
  llvm::SetVector<Value> needed;
  needed.insert(foldSelects(yield.getParam(), decided));
  for (auto [other, value] : llvm::zip(rule.getByRole(Role::state), yield.getStates()))
    if (Value folded = foldSelects(value, decided); folded != other)
      needed.insert(folded);
  for (size_t i = 0; i < needed.size(); ++i)
    if (Operation *op = needed[i].getDefiningOp())
      for (Value operand : op->getOperands())
        needed.insert(foldSelects(operand, decided));
  return needed.contains(state);
}

bool RuleOp::changes(BlockArgument state, ArrayRef<StringRef> options) {
  SmallVector<BlockArgument> states = getByRole(Role::state);
  return foldSelects(getYield().getStates()[llvm::find(states, state) - states.begin()], decide(options)) != state;
}

// A square may be computed in some steps and read in all: an option says in which. Beside entries any state may.
SmallVector<BlockArgument> RuleOp::getStoredStates(ArrayRef<StringRef> options) {
  DenseMap<Value, bool> known = decide(options);
  const bool mayKeep = !getEntryRule(*this).empty() || (*this)->hasAttr(entriesAttr);
  SmallVector<BlockArgument> stored;
  for (auto [state, value] : llvm::zip(getByRole(Role::state), getYield().getStates()))
    // What other options change, these may only read.
    if (foldSelects(value, known) != state ||
        ((mayKeep || getScope(state) > Scope::Column || value != state) && isRead(state, *this, known)))
      stored.push_back(state);
  return stored;
}

//===-- Verification --------------------------------------------------------===//

Type altgrad::getRoleType(Role role, Scope scope, MLIRContext *context) {
  Builder builder(context);
  if (role == Role::state && (scope == Scope::Tensor || scope == Scope::Step))
    return builder.getF64Type();
  return role == Role::hyper    ? Type(builder.getF64Type())
         : role == Role::step   ? Type(builder.getI64Type())
         : role == Role::option ? Type(builder.getI1Type())
                                : Type(builder.getF32Type());
}

static LogicalResult verifyDefault(RuleOp rule, BlockArgument argument, TypedAttr value) {
  Role role = rule.getRole(argument);
  StringRef word = stringifyRole(role), name = rule.getName(argument);
  auto fail = [&] { return emitError(argument.getLoc()) << "'altgrad.rule' op "; };
  bool isState = rule.isScalarState(argument);
  // rule_c4
  if (role != Role::hyper && role != Role::option && !isState)
    return fail() << "gives " << word << " '%" << name << "' a default"
                  << (role != Role::state                        ? ""
                      : rule.getScope(argument) == Scope::Column ? "; a state of each column begins as 0"
                      : rule.getScope(argument) > Scope::Column  ? "; a square begins as 0"
                                                                 : "; a state of each element begins as 0");
  auto number = dyn_cast<FloatAttr>(value);
  bool fits = isState ? number && number.getType().isF64() : value.getType() == argument.getType();
  // rule_c6
  if (!fits)
    return fail() << "gives " << word << " '%" << name << "' a default of another type";
  // rule_c7
  if (number && !number.getValue().isFinite())
    return fail() << "gives " << word << " '%" << name << "' a default that is not finite";
  // rule_c16
  if (isState && argument.getType().isInteger(64) && !number.getValue().isInteger())
    return fail() << "gives state '%" << name << "' of i64 the first value " << number.getValueAsDouble()
                  << ", which is no whole number";
  return success();
}

// Numbers of a tensor or of the step are fewer than units, so they may be wide.
LogicalResult altgrad::verifyRoleType(Location loc, Role role, Scope scope, StringRef name, Type type) {
  Type expected = getRoleType(role, scope, type.getContext());
  bool isNumber = role == Role::state && (scope == Scope::Tensor || scope == Scope::Step);
  if (type == expected || (isNumber && (type.isF32() || type.isInteger(64))))
    return success();
  return emitError(loc) << "'altgrad.rule' op has " << stringifyRole(role) << " '%" << name << "' of type "
                        << llvm::to_string(type) << ", expected " << llvm::to_string(expected)
                        << (isNumber ? ", f32 or i64" : "")
                        << (role == Role::state && !isNumber && (type.isF64() || type.isInteger(64))
                                ? "; write f32, or keep one number per tensor or per step"
                                : "")
                        << (role == Role::hyper && type.isF32()
                                ? "; for elements write %r = truncf %" + name.str() + " : f64 to f32 in the rule"
                                : "")
                        << (type.isBF16() || type.isF16() ? "; elements are f32, and the storage line says formats"
                                                          : "");
}

static LogicalResult verifyArgument(RuleOp rule, BlockArgument argument) {
  Role role = rule.getRole(argument);
  StringRef word = stringifyRole(role), name = rule.getName(argument);
  auto fail = [&] { return emitError(argument.getLoc()) << "'altgrad.rule' op "; };
  // rule_c2
  if (!llvm::is_contained(ruleRoles, role))
    return fail() << "gives '%" << name << "' the role '" << word << "'; roles are " << listRoles(ruleRoles);
  // rule_c3
  if (failed(verifyRoleType(argument.getLoc(), role, rule.getScope(argument), name, argument.getType())))
    return failure();
  TypedAttr value = rule.getDefault(argument);
  // rule_c5
  if (!value && role == Role::option)
    return fail() << "has option '%" << name << "' without a default; write = false behind its type";
  return value ? verifyDefault(rule, argument, value) : success();
}

LogicalResult RuleOp::verify() {
  // rule_c1
  if (failed(verifyNames(*this, getSymName(), getSignature())))
    return failure();
  for (BlockArgument argument : getBody().getArguments())
    if (failed(verifyArgument(*this, argument)))
      return failure();
  for (Role role : {Role::param, Role::grad}) {
    SmallVector<BlockArgument> found = getByRole(role);
    // rule_c8
    if (found.size() != 1)
      return mlir::emitError(found.size() > 1 ? found[1].getLoc() : getLoc())
             << "'altgrad.rule' op has " << found.size() << " arguments of role " << stringifyRole(role)
             << ", expected 1: write " << (role == Role::param ? "param %w: f32" : "grad %g: f32")
             << (role == Role::grad && found.size() > 1 ? "; a further tensor is an input" : "");
  }
  // rule_c9
  if (getByRole(Role::step).size() > 1)
    return emitOpError("has more than one step count");
  // rule_c13
  if (getByRole(Role::value).size() > 1)
    return emitOpError("has more than one value of the parameter");
  return success();
}

LogicalResult altgrad::verifyLength(Operation *op, Block &body, size_t most) {
  size_t count = body.getOperations().size();
  // body_c1
  if (count > most)
    return op->emitOpError() << "has " << count << " operations, at most " << most;
  // LLVM compares the operations that they become with each other.
  size_t functions = 0;
  for (Operation &one : body)
    if (const AllowedOperation *row = findAllowedOperation(one))
      functions += row->facts.functions && one.getResult(0).getType().isF64() ? 1 : row->facts.functions;
  // body_c12
  if (functions > maxFunctions)
    return op->emitOpError() << "has " << functions << " functions, at most " << maxFunctions
                             << ", where math.exp of an f32 counts as 3 and math.powf as 7";
  return success();
}

static LogicalResult verifyNewStates(RuleOp rule, const Variances &variances) {
  YieldOp yield = rule.getYield();
  for (auto [state, value] : llvm::zip(rule.getByRole(Role::state), yield.getStates())) {
    StringRef name = rule.getName(state);
    // rule_c17
    if (state.getType() != value.getType())
      return yield.emitOpError() << "gives the state '%" << name << "' of " << state.getType() << " a new value of "
                                 << value.getType();
    Scope scope = rule.getScope(state), found = variances.getScope(value);
    BlockAttr block = variances.of(value);
    // rule_c18
    if ((scope > Scope::Column || block.isSquare()) && found >= Scope::Unit &&
        block != (scope == Scope::Block ? BlockAttr::get(rule.getContext(), 1, 1)
                                        : BlockAttr::getOfState(rule.getContext(), scope)))
      return yield.emitOpError() << "gives the state '%" << name << "' an element of another matrix; altgrad.matmul "
                                 << "gives matrices of other rows and columns";
    if (scope > Scope::Column)
      continue;
    BlockAttr column = BlockAttr::getColumn(rule.getContext());
    bool isOfColumn = scope == Scope::Column && variances.of(value).covers(column);
    // rule_c14
    if (scope == Scope::Block || isOfColumn || (scope != Scope::Column && found <= scope))
      continue;
    InFlightDiagnostic error = yield.emitOpError() << "gives the state '%" << name << "', which is per "
                                                   << stringifyScope(scope) << ", a value that differs between "
                                                   << (found != Scope::Block ? (stringifyScope(found) + "s").str()
                                                       : variances.of(value).covers(column) ? "columns"
                                                                                            : "elements")
                                                   << "; altgrad.reduce over " << stringifyScope(scope)
                                                   << " gives one of each " << stringifyScope(scope);
    if (scope == Scope::Step)
      error << ", and a hyper-parameter that the step computes with is written hyper %lr: f64 per step";
    return error;
  }
  return success();
}

LogicalResult RuleOp::verifyRegions() {
  if (failed(verifyLength(*this, getBody().front())))
    return failure();
  Variances variances(*this);
  size_t reductions = 0, ofRuns = 0;
  for (Operation &op : getBody().front()) {
    if (isa<YieldOp>(op))
      continue;
    bool own = op.getName().getDialectNamespace() == "altgrad";
    if ((!own || !isAllowedOperation(op.getName().getStringRef())) && failed(verifyArithmetic(op)))
      return failure();
    if (auto reduce = dyn_cast<ReduceOp>(op)) {
      // rule_c10
      if (!getReducedScope(reduce, variances) && failed(verifyReduced(reduce, variances)))
        return failure();
      bool isOfRun = reduce.isOverBlock() && !isOverTile(reduce);
      // rule_c15
      if (++(isOfRun ? ofRuns : reductions) > (isOfRun ? maxRunReductions : maxReductions))
        return op.emitOpError() << "is one of more than " << (isOfRun ? maxRunReductions : maxReductions)
                                << (isOfRun ? " over blocks of neighbours"
                                            : " over columns, squares, units and tensors");
      continue;
    }
    bool element = !isa<MatrixOp, GramOp, ProductOp, MatmulOp, FactorizeOp, SelectByAspectOp>(op) &&
                   llvm::any_of(op.getResults(), [&](Value result) { return variances.isElement(result); });
    if (failed(verifyMatrix(op, variances)) || (element && failed(verifyElement(op))))
      return failure();
  }
  YieldOp yield = getYield();
  // rule_c12
  if (yield.getStates().size() != getByRole(Role::state).size())
    return yield.emitOpError() << "has " << yield.getStates().size() << " states, the rule has "
                               << getByRole(Role::state).size() << "; write the new value of each, in their order";
  if (variances.of(yield.getParam()).isSquare())
    return yield.emitOpError("gives the parameter an element of a square; altgrad.matmul multiplies the two");
  return verifyNewStates(*this, variances);
}
