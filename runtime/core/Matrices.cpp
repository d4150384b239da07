// Which matrices a parameter holds: itself, a stack's, its filters as rows, or parts of its rows.
#include "Layout.h"
#include "altgrad_core.h"

using namespace altgrad::core;

namespace {

using std::to_string;

void checkSplit(const altgrad_core_matrix_options &options, int64_t rows) {
  const Numbers split(options.split, options.split + options.count);
  const std::string has = "has " + to_string(rows) + " rows, and split=" + options.spelled;
  const bool counts = std::all_of(split.begin(), split.end(), [](int64_t size) { return size > 0; });
  if (options.equal && (!counts || rows % split.at(0)))
    throw Refusal(ALTGRAD_INVALID, has + " is no whole number that divides them");
  if (!options.equal && (!counts || std::accumulate(split.begin(), split.end(), int64_t(0)) != rows || split.empty()))
    throw Refusal(ALTGRAD_INVALID,
                  has + " has to name parts of 1 row or more, in whole numbers, that add up to " + to_string(rows));
}

// Matrices of a stack, of filters or of parts of rows, whose first one has `rows`.
void splitRows(const altgrad_core_matrix_options &options, const Numbers &shape, altgrad_core_matrices &of) {
  if (!options.spelled)
    return;
  const int64_t rows = of.rows;
  checkSplit(options, rows);
  if (!options.equal && of.leading + 1 < int64_t(shape.size()))
    throw Refusal(ALTGRAD_INVALID,
                  "has the shape " + inWords(shape) + ", filters with " + to_string(of.columns) +
                      " numbers each, and split=" + options.spelled +
                      " is for matrices; filters in groups have equal parts: say how many rows one has");
  of.rows = options.split[0];
  if (std::all_of(options.split, options.split + options.count, [&](int64_t size) { return size == of.rows; })) {
    of.count *= rows / of.rows;
    return;
  }
  of.count *= options.count;
  of.split = options.split;
  of.parts = options.count;
  of.apart = 1;
}

int64_t leastRows(const altgrad_core_matrices &of) {
  return of.split ? *std::min_element(of.split, of.split + of.parts) : of.rows;
}

// Where they have more columns than rows.
void turn(const altgrad_core_matrix_options &options, const Numbers &shape, altgrad_core_matrices &of) {
  if (leastRows(of) >= of.columns)
    return;
  if (of.rows != shape[size_t(of.leading - 1)])
    throw Refusal(ALTGRAD_INVALID,
                  "has " + to_string(of.count) + " parts of its rows, some with more columns than rows, " +
                      "and red_dim by_shape is for whole matrices and stacks: make parameters of the parts");
  if (options.unturned)
    throw Refusal(ALTGRAD_INVALID, "of shape " + inWords(shape) + " has more columns than rows, and red_dim by_shape " +
                                       "steps it as its transpose, which " + options.unturned +
                                       " has no form for: leave one of them out");
  std::swap(of.rows, of.columns);
  of.turned = 1;
}

altgrad_core_matrices find(const altgrad_core_matrix_options &options, const Numbers &shape) {
  const auto dims = int64_t(shape.size());
  if (dims < 2)
    throw Refusal(ALTGRAD_INVALID, "has the shape " + inWords(shape) +
                                       ", no matrix and no stack of matrices; put it into " + options.otherwise);
  altgrad_core_matrices of{};
  of.leading = options.flat > 0 || (options.flat < 0 && dims > 3) ? 1 : dims - 1;
  const auto row = shape.begin() + of.leading - 1;
  of.rows = *row;
  of.columns = product(Numbers(row + 1, shape.end()));
  of.count = product(Numbers(shape.begin(), row));
  splitRows(options, shape, of);
  int64_t common = of.rows;
  for (int64_t i = 0; i < of.parts; ++i)
    common = std::gcd(common, of.split[i]);
  of.unit = of.count > 1 ? common * of.columns : 0;
  of.apart |= options.apart && of.count > 1;
  if (options.turns)
    turn(options, shape, of);
  return of;
}

} // namespace

Numbers altgrad::core::placesOf(const altgrad_core_matrices &of, int64_t dims) {
  Numbers places(static_cast<size_t>(dims));
  std::iota(places.begin(), places.end(), 0);
  if (of.turned && of.leading < dims)
    std::rotate(places.begin() + of.leading - 1, places.begin() + of.leading, places.end());
  return places;
}

altgrad_status altgrad_core_find_matrices(const altgrad_core_matrix_options *options, int64_t dims,
                                          const int64_t *sizes, altgrad_core_matrices *out) {
  return guarded([&] { *out = find(*options, Numbers(sizes, sizes + dims)); });
}

int32_t altgrad_core_matrix_layout(const altgrad_core_matrices *of, int64_t dims, const int64_t *sizes,
                                   const int64_t *strides, int64_t *wanted) {
  return guarded<int32_t>(-1, [&] {
    const Layout param(dims, sizes, strides);
    const Numbers places = placesOf(*of, dims);
    const Layout ordered = Layout(param.inOrder(places).sizes);
    for (size_t i = 0; i < places.size(); ++i)
      wanted[places[i]] = ordered.strides[i];
    return param.inOrder(places).isContiguous(); // with columns in another order sums would round in another one
  });
}

Piece altgrad::core::pieceOf(const altgrad_core_matrices &of, int64_t index, int64_t place, int64_t more) {
  constexpr int64_t lastTag = (1 << 24) - 1;
  Piece piece{index * of.rows * of.columns, of.rows, index ? lastTag - more - index + 1 : place};
  if (!of.split)
    return piece;
  auto rowsBefore = [&](int64_t part) { return std::accumulate(of.split, of.split + part, int64_t(0)); };
  const int64_t part = index % of.parts;
  piece.rows = of.split[part];
  piece.first = (index / of.parts * rowsBefore(of.parts) + rowsBefore(part)) * of.columns;
  return piece;
}
