// The storage line of one set: what its words mean for the streams of its rule.
#ifndef ALTGRAD_DIALECT_FRONTEND_SETSTORAGE_H
#define ALTGRAD_DIALECT_FRONTEND_SETSTORAGE_H

#include "dialect/frontend/Request.h"

namespace altgrad {

struct CodecRow;

class SetStorage {
public:
  /// `rule` is null for a set without one. `several`: the step has other sets, too.
  SetStorage(mlir::MLIRContext &context, const SetRequest &request, RuleOp rule, unsigned set, bool several);
  /// Fails after an error at the word that is none, or that does not go with the others.
  mlir::LogicalResult read();

  bool hasWord(llvm::StringRef stream) const { return find(stream); }
  /// What is said of a stream, or of all states; a word of nothing where nothing is.
  const StorageWord &word(llvm::StringRef stream) const;
  /// "bf16"; f32 where nothing is said.
  llvm::StringRef formatName(llvm::StringRef stream) const;
  FormatAttr format(llvm::StringRef stream) const;
  TensorsType type(llvm::StringRef stream) const;
  /// Of a value for each block.
  TensorsType tensors(llvm::StringRef format, int64_t rows = 1, int64_t columns = 1, bool packed = false) const;
  const CodecRow &codec(llvm::StringRef stream) const;
  /// The format of this word alone; null where that is another stream's, or two.
  FormatAttr named(const StorageWord &word) const { return FormatAttr::getNamed(&context, word.format); }
  bool hasBlocks(llvm::StringRef stream) const { return word(stream).block.has_value(); }
  bool isInput(llvm::StringRef stream) const;
  /// What a state has values for that is no element of the tensor: columns or a square; else null.
  BlockAttr getOwnGeometry(llvm::StringRef stream) const;
  /// Its number among the stores of an element, which no other word changes.
  unsigned getStoreIndex(llvm::StringRef stream) const;
  /// Whether something is rounded as draws say.
  bool draws() const;

  /// Whether the parameter is the upper half of its master.
  bool splitsMaster() const;
  /// Parameters on a format's grid, which rules move in rungs; stored as codes or not.
  bool inRungs() const { return hasWord("rungs"); }
  bool isCoded() const { return format("param") == format("rungs"); }
  bool drawsRungs() const { return inRungs() && word("rungs").round.value_or(Round::Stochastic) == Round::Stochastic; }

  /// The word about a stream, or the rule where there is none.
  mlir::Location getLocation(llvm::StringRef stream) const;
  mlir::Location getRuleLocation() const;
  /// An error at the word about `stream`, or where the line begins.
  mlir::InFlightDiagnostic error(llvm::StringRef stream = "") const;
  /// One that names the word, at what it says behind a comma.
  mlir::InFlightDiagnostic error(const StorageWord &word, llvm::StringRef modifier = "") const;
  /// That what is said is not of this word, but of others.
  mlir::InFlightDiagnostic refuse(const StorageWord &word, llvm::StringRef modifier) const;

  const SetRequest &request;
  mutable RuleOp rule;
  const unsigned set;
  const bool several;
  llvm::SmallVector<llvm::StringRef> options;
  llvm::SmallVector<mlir::BlockArgument> states; // that are stored

private:
  const StorageWord *find(llvm::StringRef stream) const;
  mlir::Location at(llvm::StringRef what, unsigned column) const;
  mlir::LogicalResult checkOptions();
  mlir::LogicalResult readWord(StorageWord &word);
  mlir::LogicalResult noStream(const StorageWord &word) const;
  mlir::LogicalResult check(const StorageWord &word) const;
  mlir::LogicalResult checkRungs() const;

  mlir::MLIRContext &context;
  llvm::SmallVector<StorageWord> words;
};

} // namespace altgrad

#endif // ALTGRAD_DIALECT_FRONTEND_SETSTORAGE_H
