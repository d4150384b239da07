// How numbers are kept under a word of storage: each codec is a class in a file of its own and a row of `getCodecs`.
#ifndef ALTGRAD_DIALECT_FRONTEND_BLOCKCODEC_H
#define ALTGRAD_DIALECT_FRONTEND_BLOCKCODEC_H

#include "dialect/frontend/SetBuilder.h"

namespace altgrad {

/// A word behind a comma, what it says, which only one word may, and of what it is.
struct CodecWord {
  llvm::StringLiteral word, says, of = "";
  bool counts = false; ///< A number may follow it: "delayed:16".
};

struct CodecRow {
  llvm::ArrayRef<CodecWord> words;
  bool (*accepts)(const StorageWord &word);
  /// All words are known.
  mlir::LogicalResult (*verify)(const SetStorage &set, const StorageWord &word);
  std::unique_ptr<BlockCodec> (*make)(SetBuilder &set, const Argument &target, Access access, llvm::StringRef stream);
  const CodecWord *find(llvm::StringRef modifier) const;
};

/// All of them; of those that a word is of, the first one is its codec. The last one has the words that all may have.
llvm::ArrayRef<const CodecRow *> getCodecs();
extern const CodecRow companding, tensorScale, twoLevels, powersOfTwo, squares, scaledBlocks, splitMaster, plain;
const CodecRow &getCodec(const StorageWord &word);
/// Null for what no codec has.
const CodecWord *findCodecWord(llvm::StringRef modifier);

/// A list and how its elements are kept: here as numbers, or as codes without a scale.
class BlockCodec {
public:
  using Value = mlir::Value;
  BlockCodec(SetBuilder &set, const Argument &target, Access, llvm::StringRef stream)
      : target(target), set(set), step(set.step), stream(stream), word(set.storage.word(stream)),
        facts(getCodecFacts(target.type().getFormat())), top(facts.most), ops(set.ops(target, stream)) {}
  virtual ~BlockCodec() = default;

  static constexpr llvm::ArrayRef<CodecWord> words = {};
  static mlir::LogicalResult verify(const SetStorage &, const StorageWord &) { return mlir::success(); }
  virtual Value decode() { return ops.dequantize("old", target.value); }
  virtual void encode(Value values);

  const Argument target;
  Value code; // what was stored

protected:
  /// What a number is over its scale where it has the smallest positive code.
  virtual float leastShare() const { return facts.least; }
  Value preservePositive(Value number, Value scale);
  Value getFactor(Value largest, float top);
  void finish(Value scaled);

  SetBuilder &set;
  StepBuilder &step;
  llvm::StringRef stream;
  const StorageWord &word;
  CodecFacts facts;
  float top; // the largest number of the format
  NamedOpBuilder ops;
  Value one, most; // of getFactor: 1, and the largest f32
};

/// Codes under a scale for each block, in f32 or f16, which are a further list.
class ScaledBlocks : public BlockCodec {
public:
  /// `columns`: blocks of columns.
  ScaledBlocks(SetBuilder &set, const Argument &target, Access access, llvm::StringRef stream, bool columns = false);
  static bool accepts(const StorageWord &word) { return word.block.has_value(); }
  static mlir::LogicalResult verify(const SetStorage &set, const StorageWord &word);
  Value decode() override;
  void encode(Value values) override;

protected:
  static mlir::LogicalResult verifyBlock(const SetStorage &set, const StorageWord &word);
  static mlir::LogicalResult verifyTile(llvm::StringRef says, const SetStorage &set, const StorageWord &word);
  virtual Value expand(Value number, Value unit) { return ops.mul("value", number, unit); }
  virtual Value getNumber(Value values) { return ops.element("next", values); }
  /// What `getShare` takes; `scaleCode` becomes what is stored of it.
  virtual Value chooseScale(Value number);
  /// What is rounded to a code.
  virtual Value getShare(Value number, Value scale);
  Value getLargest(Value number, bool finite);
  Value getScale(Value largest, float top, float least);

  Argument scales;
  Value scaleCode;
};

template <typename Codec>
inline constexpr CodecRow codecRow{
    Codec::words, Codec::accepts, Codec::verify,
    [](SetBuilder &set, const Argument &target, Access access, llvm::StringRef stream) -> std::unique_ptr<BlockCodec> {
      return std::make_unique<Codec>(set, target, access, stream);
    }};

} // namespace altgrad

#endif // ALTGRAD_DIALECT_FRONTEND_BLOCKCODEC_H
