// What is lost between the numbers of a rule and the formats of a step.
#ifndef ALTGRAD_CODEGEN_DRIVER_ANALYZE_H
#define ALTGRAD_CODEGEN_DRIVER_ANALYZE_H

#include "codegen/driver/StoredUpdate.h"

namespace altgrad {

/// One thing that is lost: where, what, and what to do about it.
struct Finding {
  mlir::Location place;
  std::string what, remedy;
};

/// Of one update, in the order of its signature.
void checkParameter(const StoredUpdate &update,
                    llvm::SmallVectorImpl<Finding> &findings);
void checkStates(const StoredUpdate &update,
                 llvm::SmallVectorImpl<Finding> &findings);
void checkDivisions(const StoredUpdate &update,
                    llvm::SmallVectorImpl<Finding> &findings);
/// Of the step as a whole: its count, and gradients under a loss scale.
void checkScalars(StepOp step, llvm::ArrayRef<StoredUpdate> updates,
                  double lossScale, llvm::SmallVectorImpl<Finding> &findings);

/// "0.000244": three digits.
std::string digits(double number);

/// Reads "lr=1e-4" and the like. Returns why one is no value, or "".
std::string readValues(llvm::ArrayRef<std::string> words,
                       llvm::StringMap<double> &values);
/// Why these are no values for the step's hyper-parameters by key, of which
/// `loss_scale` is one; or "".
std::string whyNoValues(StepOp step, const llvm::StringMap<double> &hypers);

/// Looks at every update of a step. `rules` finds the rule of one, or null after an
/// error. Fails after an error, as for a hyper-parameter without a value.
mlir::FailureOr<llvm::SmallVector<Finding>>
analyze(StepOp step, llvm::function_ref<RuleOp(UpdateOp)> rules,
        const llvm::StringMap<double> &hypers);

/// The report: a warning and a note for each finding, then their number.
std::string writeFindings(StepOp step, llvm::ArrayRef<Finding> findings);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_DRIVER_ANALYZE_H
