// Lists for matrices, and the products between sweeps.
#include "passes/MatrixPlaces.h"

using namespace mlir;
using namespace altgrad;

static FormatAttr formatOf(Value matrix) { return cast<SquaresType>(squaresOf(matrix.getType())).getFormat(); }

Value MatrixPlaces::make(Value matrix) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&step.getBody().front());
  return SpillOp::create(builder, matrix.getLoc(), TensorsType::get(step.getContext(), formatOf(matrix)));
}

Value MatrixPlaces::take(Value matrix) {
  auto *fit = llvm::find_if(unread, [&](const auto &place) {
    return place.first == sets.of(matrix) && cast<TensorsType>(place.second.getType()).getFormat() == formatOf(matrix);
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

void MatrixPlaces::multiply(Value result) {
  Operation *op = result.getDefiningOp();
  SmallVector<Value> operands = llvm::map_to_vector(op->getOperands(), [&](Value matrix) { return of(matrix); });
  Value into = places[result] = take(result);
  if (auto product = dyn_cast<ProductOp>(op)) {
    bool square = isa<SquaresType>(result.getType());
    MultiplyOp::create(builder, op->getLoc(), square ? ProductForm::Square : ProductForm::Side, operands[0],
                       operands[1], product.getFactor(), product.getAdded() ? operands[2] : Value(),
                       product.getWeight(), into);
  } else {
    APFloat one(1.0);
    MultiplyOp::create(builder, op->getLoc(), ProductForm::Gram, operands[0], operands[0], one, Value(), one, into);
  }
  release(op);
}

// A sweep has a place of its own to store to: it may be moved before the products of others.
Value MatrixPlaces::of(Value matrix) {
  if (!places.contains(matrix)) {
    if (matrix.getDefiningOp<CollectOp>())
      places[matrix] = make(matrix);
    else
      multiply(matrix);
  }
  return places.lookup(matrix);
}
