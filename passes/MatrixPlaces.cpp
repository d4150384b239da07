// Lists for matrices, and the products between sweeps.
#include "passes/MatrixPlaces.h"

using namespace mlir;
using namespace altgrad;

static FormatAttr getFormat(Value matrix) { return cast<SquaresType>(getSquareType(matrix.getType())).getFormat(); }

Value MatrixPlaces::make(Value matrix) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&step.getBody().front());
  return SpillOp::create(builder, matrix.getLoc(), TensorsType::get(step.getContext(), getFormat(matrix)));
}

Value MatrixPlaces::take(Value matrix) {
  if (Value aim = aims.lookup(matrix))
    return aim;
  auto *fit = llvm::find_if(unread, [&](const auto &place) {
    return place.first == sets.of(matrix) && cast<TensorsType>(place.second.getType()).getFormat() == getFormat(matrix);
  });
  if (fit == unread.end())
    return make(matrix);
  Value place = fit->second;
  unread.erase(fit);
  return place;
}

// What a sweep reads stays: it may be read again.
void MatrixPlaces::release(Operation *reader) {
  written.insert(reader);
  for (Value matrix : llvm::SmallSetVector<Value, 4>(reader->operand_begin(), reader->operand_end()))
    if (llvm::all_of(matrix.getUsers(), [&](Operation *user) { return written.contains(user); }))
      unread.push_back({sets.of(matrix), places.lookup(matrix)});
}

// What a square comes from in the end.
static GramOp buildGram(Operation *op) {
  while (auto product = dyn_cast<ProductOp>(op))
    op = product.getLeft().getDefiningOp();
  return cast<GramOp>(op);
}

void MatrixPlaces::multiply(Value result) {
  Operation *op = result.getDefiningOp();
  SmallVector<Value> operands = llvm::map_to_vector(op->getOperands(), [&](Value matrix) { return of(matrix); });
  Value into = places[result] = take(result);
  GramOp from = buildGram(op);
  auto write = [&](ProductForm form, Value right, APFloat factor, Value added, APFloat weight, APFloat shift) {
    MultiplyOp::create(builder, op->getLoc(), form, operands[0], right, factor, added, weight, shift, into,
                       from.getUnits(), from.getAlone(), APFloat(least.value_or(1)),
                       below ? builder.getF64FloatAttr(*below) : FloatAttr());
  };
  if (auto product = dyn_cast<ProductOp>(op)) {
    bool square = isa<SquaresType>(result.getType());
    write(square ? ProductForm::Square : ProductForm::Side, operands[1], product.getFactor(),
          product.getAdded() ? operands[2] : Value(), product.getWeight(), product.getShift());
  } else {
    APFloat one(1.0), none(0.0);
    write(ProductForm::Gram, operands[0], one, Value(), one, none);
  }
  release(op);
}

// Products of one form that something else reads are for all tensors.
void MatrixPlaces::writeShared(Value form, SelectByAspectOp either) {
  SetVector<Operation *> products;
  std::function<void(Value)> gather = [&](Value matrix) {
    Operation *op = matrix.getDefiningOp();
    if (!isa<GramOp, ProductOp, SelectByAspectOp>(op) || products.contains(op))
      return;
    for (Value operand : op->getOperands())
      gather(operand);
    products.insert(op);
  };
  gather(form);
  DenseSet<Operation *> own{either};
  for (Operation *op : llvm::reverse(products))
    if (llvm::all_of(op->getUsers(), [&](Operation *user) { return own.contains(user); }))
      own.insert(op);
  for (Operation *op : products)
    if (!own.contains(op) && op->getResult(0) != form)
      of(op->getResult(0));
}

void MatrixPlaces::choose(SelectByAspectOp either) {
  writeShared(either.getOther(), either);
  writeShared(either.getElongated(), either);
  auto before = std::pair(least, below);
  double ratio = either.getRatio().convertToDouble();
  auto writeForm = [&](Value form) {
    multiply(form);
    Value place = places.lookup(form);
    places.erase(form); // who else reads it takes one of all tensors
    return place;
  };
  below = below ? std::min(*below, ratio) : ratio;
  Value place = writeForm(either.getOther());
  below = before.second;
  least = std::max(least.value_or(ratio), ratio);
  aims[either.getElongated()] = place;
  writeForm(either.getElongated());
  aims.erase(either.getElongated());
  std::tie(least, below) = before;
  written.insert(either);
  places[either.getResult()] = place;
}

// A sweep has a place of its own to store to: it may be moved before the products of others.
Value MatrixPlaces::of(Value matrix) {
  if (!places.contains(matrix)) {
    if (matrix.getDefiningOp<CollectOp>())
      places[matrix] = make(matrix);
    else if (auto either = matrix.getDefiningOp<SelectByAspectOp>())
      choose(either);
    else
      multiply(matrix);
  }
  return places.lookup(matrix);
}
