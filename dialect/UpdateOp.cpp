// Text and verification of update: the seam between a step and a rule.
#include "dialect/Dialect.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace altgrad;

ParseResult UpdateOp::parse(OpAsmParser &parser, OperationState &result) {
  FlatSymbolRefAttr rule;
  SmallVector<Attribute> options;
  auto &builder = parser.getBuilder();
  if (parser.parseAttribute(rule, "rule", result.attributes))
    return failure();
  if (succeeded(parser.parseOptionalLBrace())) {
    auto option = [&]() -> ParseResult {
      StringRef word;
      if (parser.parseKeyword(&word))
        return failure();
      options.push_back(builder.getStringAttr(word));
      return success();
    };
    if (parser.parseCommaSeparatedList(option) || parser.parseRBrace())
      return failure();
  }
  result.addAttribute("options", builder.getArrayAttr(options));
  Type reals = RealsType::get(parser.getContext());
  SmallVector<int32_t> segments;
  auto group = [&](StringRef word, Type type) -> ParseResult {
    SmallVector<OpAsmParser::UnresolvedOperand> values;
    if (parser.parseKeyword(word) ||
        parser.parseOperandList(values, OpAsmParser::Delimiter::Paren))
      return failure();
    segments.push_back(values.size());
    return parser.resolveOperands(values, type, result.operands);
  };
  if (group("param", reals) || group("grad", reals) || group("state", reals) ||
      group("hyper", builder.getF64Type()))
    return failure();
  if (segments[0] != 1 || segments[1] != 1)
    return parser.emitError(parser.getNameLoc())
           << "updates one parameter by one gradient";
  OpAsmParser::UnresolvedOperand step, value;
  bool counted = succeeded(parser.parseOptionalKeyword("step"));
  if (counted && (parser.parseLParen() || parser.parseOperand(step) ||
                  parser.parseRParen() ||
                  parser.resolveOperand(step, builder.getI64Type(),
                                        result.operands)))
    return failure();
  bool valued = succeeded(parser.parseOptionalKeyword("value"));
  if (valued &&
      (parser.parseLParen() || parser.parseOperand(value) ||
       parser.parseRParen() ||
       parser.resolveOperand(value, reals, result.operands)))
    return failure();
  result.getOrAddProperties<Properties>().operandSegmentSizes = {
      1, 1, segments[2], segments[3], counted ? 1 : 0, valued ? 1 : 0};
  result.addTypes(SmallVector<Type>(1 + segments[2], reals));
  return success();
}

void UpdateOp::print(OpAsmPrinter &printer) {
  printer << ' ' << getRuleAttr();
  if (!getOptions().empty()) {
    printer << " {";
    llvm::interleaveComma(
        getOptions().getAsRange<StringAttr>(), printer,
        [&](StringAttr option) { printer << option.getValue(); });
    printer << "}";
  }
  printer << " param(" << getParam() << ") grad(" << getGrad() << ") state("
          << getStates() << ") hyper(" << getHypers() << ")";
  if (getStep())
    printer << " step(" << getStep() << ")";
  if (getValue())
    printer << " value(" << getValue() << ")";
}

LogicalResult UpdateOp::verifySymbolUses(SymbolTableCollection &symbols) {
  Operation *found = symbols.lookupNearestSymbolFrom(*this, getRuleAttr());
  if (!found) // perhaps on the rule path
    return success();
  auto rule = dyn_cast<RuleOp>(found);
  // update_c1
  if (!rule)
    return emitOpError() << "applies '" << getRule() << "', which is no rule";
  return verifyUpdate(*this, rule);
}

LogicalResult altgrad::verifyUpdate(UpdateOp update, RuleOp rule) {
  SmallVector<StringRef> options;
  for (auto option : update.getOptions().getAsRange<StringAttr>()) {
    bool known = llvm::any_of(rule.getByRole("option"), [&](auto argument) {
      return rule.getName(argument) == option.getValue();
    });
    // update_c2
    if (!known)
      return update.emitOpError() << "sets '" << option.getValue()
                                  << "', which is no option of rule '"
                                  << rule.getSymName() << "'";
    options.push_back(option.getValue());
  }
  auto complain = [&](StringRef role, size_t got, ArrayRef<BlockArgument> want) {
    InFlightDiagnostic error = update.emitOpError()
                               << "gives " << got << " " << role
                               << " operands, rule '" << rule.getSymName()
                               << "' wants " << want.size();
    if (!want.empty()) {
      error << ": ";
      llvm::interleaveComma(want, error, [&](BlockArgument argument) {
        error << rule.getName(argument);
      });
    }
    return error;
  };
  auto states = rule.getStoredStates(options);
  // update_c3
  if (states.size() != update.getStates().size())
    return complain("state", update.getStates().size(), states);
  auto hypers = rule.getByRole("hyper");
  // update_c4
  if (hypers.size() != update.getHypers().size())
    return complain("hyper", update.getHypers().size(), hypers);
  auto steps = rule.getByRole("step");
  // update_c5
  if (steps.size() != (update.getStep() ? 1 : 0))
    return complain("step", update.getStep() ? 1 : 0, steps);
  return success();
}
