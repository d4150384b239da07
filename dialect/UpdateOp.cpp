// Types and verification of update: the seam between a step and a rule.
#include "dialect/Dialect.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace altgrad;

LogicalResult UpdateOp::inferReturnTypes(MLIRContext *context, std::optional<Location>, Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  types.assign(1 + adaptor.getStates().size(), RealsType::get(context));
  llvm::append_range(types, adaptor.getScalarStates().getTypes());
  return success();
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
  bool iterates = !rule.getBody().getOps<OrthogonalizeOp>().empty();
  for (auto option : update.getOptions().getAsRange<StringAttr>()) {
    if (iterates && readIterationWord(update.getContext(), option.getValue()))
      continue;
    bool known = llvm::any_of(rule.getByRole(Role::option),
                              [&](auto argument) { return rule.getName(argument) == option.getValue(); });
    // update_c2
    if (!known)
      return update.emitOpError() << "sets '" << option.getValue() << "', which is no option of rule '"
                                  << rule.getSymName() << "'";
    options.push_back(option.getValue());
  }
  auto complain = [&](StringRef role, size_t got, ArrayRef<BlockArgument> want) {
    InFlightDiagnostic error = update.emitOpError() << "gives " << got << " " << role << " operands, rule '"
                                                    << rule.getSymName() << "' wants " << want.size();
    if (!want.empty()) {
      error << ": ";
      llvm::interleaveComma(want, error, [&](BlockArgument argument) { error << rule.getName(argument); });
    }
    return error;
  };
  auto states = rule.getStoredStates(options);
  auto scalars = llvm::filter_to_vector(states, [&](auto state) { return rule.isScalarState(state); });
  llvm::erase_if(states, [&](auto state) { return rule.isScalarState(state); });
  // update_c3
  if (states.size() != update.getStates().size())
    return complain("state", update.getStates().size(), states);
  if (scalars.size() != update.getScalarStates().size())
    return complain("scalar", update.getScalarStates().size(), scalars);
  for (auto [state, value] : llvm::zip(scalars, update.getScalarStates()))
    // update_c6
    if (state.getType() != value.getType())
      return update.emitOpError() << "gives '" << rule.getName(state) << "' of rule '" << rule.getSymName() << "' a "
                                  << value.getType() << ", expected " << state.getType();
  auto inputs = rule.getByRole(Role::input);
  // update_c7
  if (inputs.size() != update.getInputs().size())
    return complain("input", update.getInputs().size(), inputs);
  auto hypers = rule.getByRole(Role::hyper);
  // update_c4
  if (hypers.size() != update.getHypers().size())
    return complain("hyper", update.getHypers().size(), hypers);
  auto steps = rule.getByRole(Role::step);
  // update_c5
  if (steps.size() != (update.getStep() ? 1 : 0))
    return complain("step", update.getStep() ? 1 : 0, steps);
  // update_c8
  if (bool(update.getSeed()) != bool(update.getDraws()) || (!update.getSeed() && rule.draws(options)))
    return update.emitOpError() << "gives no seed and no count of draws, rule '" << rule.getSymName()
                                << "' has random numbers: write random(%seed, %draws)";
  return success();
}
