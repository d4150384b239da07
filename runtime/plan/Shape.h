// Shapes of the tensors that a caller declares, as slices of a whole.
#ifndef ALTGRAD_RUNTIME_SHAPE_H
#define ALTGRAD_RUNTIME_SHAPE_H

#include "altgrad/altgrad.h"
#include "bundle/Manifest.h"

namespace altgrad::runtime {

constexpr int64_t mostElements = int64_t(1) << 44; // 2^32 chunks

inline int64_t wholeOf(const altgrad_tensor &tensor) { return tensor.whole ? tensor.whole : tensor.numel; }

struct Shape {
  int64_t rows, columns, batch;
  int64_t allRows() const { return rows * batch; }
};

// The matrices that the elements of the whole are of; false where there are no
// such.
bool shapeOf(const altgrad_tensor &tensor, Shape &shape);

struct RowsHere {
  int64_t count, length;
};

// The rows of a slice, of all matrices: one row where it cuts one.
RowsHere rowsHere(const altgrad_tensor &tensor);

// A tensor is one row of the table, or as many as it has units.
struct Units {
  int64_t count, numel;
};
Units unitsOf(const Manifest &manifest, const altgrad_tensor &tensor);

} // namespace altgrad::runtime

#endif // ALTGRAD_RUNTIME_SHAPE_H
