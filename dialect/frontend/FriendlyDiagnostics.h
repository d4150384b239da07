// What MLIR's parser says of a mistake, in words that somebody who writes rules can use.
#ifndef ALTGRAD_DIALECT_FRONTEND_FRIENDLYDIAGNOSTICS_H
#define ALTGRAD_DIALECT_FRONTEND_FRIENDLYDIAGNOSTICS_H

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringMap.h"

namespace mlir {
class DialectRegistry;
}

namespace altgrad {

/// While it lives, errors of the parser and of upstream verifiers are reworded before the
/// handlers that were there before see them. What it does not know stays as it is.
class FriendlyDiagnostics : public mlir::ScopedDiagnosticHandler {
public:
  explicit FriendlyDiagnostics(mlir::MLIRContext *context);
  /// The text that locations in `name` are of; else it is read where the name is a file.
  void quote(llvm::StringRef name, llvm::StringRef text) { texts[name] = text.str(); }

private:
  llvm::StringMap<std::string> texts;
};

/// The same for every context that loads the dialect, as mlir-opt's main makes them.
void registerFriendlyDiagnostics(mlir::DialectRegistry &registry);

} // namespace altgrad

#endif // ALTGRAD_DIALECT_FRONTEND_FRIENDLYDIAGNOSTICS_H
