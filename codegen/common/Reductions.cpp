// How partial sums begin, grow and join.
#include "codegen/common/Reductions.h"

using namespace mlir;
using namespace altgrad;

Type altgrad::partialType(Reduction kind, Type element) {
  MLIRContext *context = element.getContext();
  return withElementType(element,
                         kind == Reduction::And ? Type(IntegerType::get(context, 32)) : Float32Type::get(context));
}

Value altgrad::neutral(CodeBuilder &builder, Reduction kind, Type type) {
  if (kind == Reduction::And)
    return builder.integer(type, -1);
  bool isLargest = kind == Reduction::Max || kind == Reduction::AbsMax;
  return builder.f32(isLargest ? -std::numeric_limits<float>::infinity() : 0, type);
}

// Behind the flag: a predicate that waits for its sum is one that ptxas has no register for.
static Value boolToNumber(CodeBuilder &builder, Value flag, Type type) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointAfterValue(flag);
  return builder.select(flag, builder.f32(1, type), builder.f32(0, type));
}

Value altgrad::accumulate(CodeBuilder &builder, Reduction kind, Value partial, Value element) {
  if (kind == Reduction::SumSq)
    return builder.fma(element, element, partial);
  if (kind == Reduction::AbsMax)
    element = builder.absF(element);
  if (kind == Reduction::Count)
    element = boolToNumber(builder, element, partial.getType());
  if (kind == Reduction::And)
    element = builder.extendSigned(partial.getType(), element);
  return combine(builder, kind, partial, element);
}

// Magnitudes have no sign: their bits have their order, a NaN comes last, and a maximum is one instruction.
static Value maxOfBits(CodeBuilder &builder, Value a, Value b) {
  Type type = withElementType(a.getType(), builder.getI32Type());
  Value most = builder.maxSigned(builder.cast(type, a), builder.cast(type, b));
  return builder.cast(a.getType(), most);
}

Value altgrad::combine(CodeBuilder &builder, Reduction kind, Value a, Value b) {
  switch (kind) {
  case Reduction::Add:
  case Reduction::SumSq:
  case Reduction::Count:
    return builder.addF(a, b);
  case Reduction::Max:
    return builder.maximumF(a, b);
  case Reduction::AbsMax:
    return maxOfBits(builder, a, b);
  case Reduction::And:
    return builder.bitAnd(a, b);
  }
  llvm_unreachable("unknown reduction");
}

Value altgrad::getBlockTerm(CodeBuilder &builder, Reduction kind, Value element) {
  return kind == Reduction::SumSq ? builder.mulF(element, element) : element;
}

bool altgrad::isOrdered(Reduction kind) { return kind == Reduction::Add || kind == Reduction::SumSq; }

SmallVector<Value> altgrad::splitVector(CodeBuilder &builder, Value vector) {
  SmallVector<Value> elements;
  int64_t width = cast<VectorType>(vector.getType()).getNumElements();
  for (int64_t i = 0; i < width; ++i)
    elements.push_back(builder.element(vector, i));
  return elements;
}

Value altgrad::combineElements(CodeBuilder &builder, Reduction kind, SmallVector<Value> elements) {
  for (size_t half = elements.size() / 2; half; half /= 2)
    for (size_t i = 0; i < half; ++i)
      elements[i] = combine(builder, kind, elements[i], elements[i + half]);
  return elements[0];
}

Value altgrad::combineNeighbours(CodeBuilder &builder, Reduction kind, SmallVector<Value> elements) {
  for (; elements.size() > 1; elements.truncate(elements.size() / 2))
    for (size_t i = 0; i < elements.size() / 2; ++i)
      elements[i] = combine(builder, kind, elements[2 * i], elements[2 * i + 1]);
  return elements[0];
}

Value altgrad::getTotal(CodeBuilder &builder, Reduction kind, Value sum) {
  if (kind != Reduction::And)
    return sum;
  return builder.notEqual(sum, builder.integer(sum.getType(), 0));
}
