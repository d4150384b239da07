// What of a tensor follows from the shape of its whole.
#include "plan/Shape.h"

using namespace altgrad::runtime;

bool altgrad::runtime::shapeOf(const altgrad_tensor &tensor, Shape &shape) {
  int64_t numel = wholeOf(tensor), rows = tensor.rows, columns = tensor.columns;
  if (rows < 0 || columns < 0 || rows > mostElements || columns > mostElements)
    return false;
  if (rows == 0 && columns == 0) {
    shape = {1, numel, 1};
    return true;
  }
  bool empty = rows == 0 || columns == 0;
  shape = {rows, columns, empty ? 1 : numel / columns / rows};
  return empty ? numel == 0 : numel % columns == 0 && numel / columns % rows == 0;
}

RowsHere altgrad::runtime::rowsHere(const altgrad_tensor &tensor) {
  Shape shape;
  shapeOf(tensor, shape);
  const int64_t length = shape.columns;
  if (shape.allRows() <= 1 || length == 0 || tensor.offset % length != 0 || tensor.numel % length != 0)
    return {1, tensor.numel};
  return {tensor.numel / length, length};
}

Units altgrad::runtime::unitsOf(const Manifest &manifest, const altgrad_tensor &tensor) {
  if (!manifest.hasUnits(tensor.set) || tensor.numel == 0)
    return {1, tensor.numel};
  Shape shape;
  shapeOf(tensor, shape);
  if (manifest.hasColumns(tensor.set))
    return {tensor.numel / shape.columns, shape.columns};
  const bool matrices = manifest.units[size_t(tensor.set)] == UnitKind::Matrices;
  int64_t numel =
      matrices ? shape.rows * shape.columns : wholeOf(tensor) / (tensor.units ? tensor.units : shape.allRows());
  return {tensor.numel / numel, numel};
}
