// What is lost between the numbers of a rule and the formats of a step.
#ifndef ALTGRAD_PASSES_ANALYSIS_ANALYZE_H
#define ALTGRAD_PASSES_ANALYSIS_ANALYZE_H

#include "passes/analysis/StoredUpdate.h"
#include "llvm/Support/JSON.h"

namespace altgrad {

/// One thing that is lost: where, what, and what to do about it.
struct Finding {
  mlir::Location loc;
  std::string what, remedy;
};

/// What a narrow format says of every run: something is lost in a set where this
/// hyper-parameter lies between two numbers; "": with any values.
struct Limit {
  unsigned set = 0;
  std::string stream, hyper;
  double above = 0, below = 0;
  std::string text;
};

struct Findings {
  llvm::SmallVector<Finding> list;
  llvm::SmallVector<Limit> limits;
};

/// Of one update, in the order of its signature.
void checkParameter(const StoredUpdate &update, Findings &findings);
void checkStates(const StoredUpdate &update, Findings &findings);
void checkDivisions(const StoredUpdate &update, Findings &findings);

/// Where `isLow` turns false between two numbers, after so many halvings: the least that is not low.
double bisect(double low, double high, int times, llvm::function_ref<bool(double)> isLow);
/// "0.000244": three digits.
std::string digits(double number);

/// Reads "lr=1e-4" and the like. Returns why one is no value, or "".
std::string readValues(llvm::ArrayRef<std::string> words, llvm::StringMap<double> &values);
/// Fails unless these are values for the step's hyper-parameters by key, of which `loss_scale` is one.
llvm::Error verifyValues(StepOp step, const llvm::StringMap<double> &hypers);

/// Looks at every update of a step. `rules` finds the rule of one, or null after an
/// error. Fails after an error, as for a hyper-parameter without a value.
mlir::FailureOr<Findings> analyze(StepOp step, llvm::function_ref<RuleOp(UpdateOp)> rules,
                                  const llvm::StringMap<double> &hypers);

/// Of each set of a step: whether what an element becomes depends on where it is in its tensor, by an index, a draw, a
/// block, a unit or as a matrix. `rules` as above; a rule that is not found asks for nothing.
llvm::SmallVector<bool> findPositionDependentSets(StepOp step, llvm::function_ref<RuleOp(UpdateOp)> rules);

/// Whether a step keeps anything narrow, and says what its hyper-parameters are.
bool hasLimits(StepOp step);

/// The report: a warning and a note for each finding, then their number.
std::string writeFindings(StepOp step, llvm::ArrayRef<Finding> findings);
/// Limits as a manifest has them.
llvm::json::Array writeLimits(llvm::ArrayRef<Limit> limits);

} // namespace altgrad

#endif // ALTGRAD_PASSES_ANALYSIS_ANALYZE_H
