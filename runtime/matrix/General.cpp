// Products and factorizations of matrices that say their rows and columns: those of a tensor, and its squares.
#include "Status.h"
#include "matrix/Multiply.h"

using namespace altgrad::runtime;

namespace {

struct Location {
  const void *data;
  int64_t distance, rows, columns; // of the matrix as it lies, whose rows have no gaps
};

// Squares lie behind all lists of elements, tensor by tensor, those of rows first.
Location placeOf(const Operand &operand, const Product &product, const Matrices &matrices, const RowTables &table,
                 const Phase &phase, const Launch &launch) {
  const int64_t elements = launch.args.nchunks * ALTGRAD_CHUNK;
  auto *spills = reinterpret_cast<char *>(launch.args.spills);
  const bool ofRows = operand.of == Side::Rows;
  const int64_t rows = operand.of == Side::Columns ? matrices.columns : matrices.rows;
  const int64_t columns = ofRows ? matrices.rows : matrices.columns;
  if (operand.in != Source::Workspace) {
    const int64_t at = table.addressOf(operand, matrices.row);
    const int64_t next = matrices.count > 1 ? table.addressOf(operand, matrices.row + matrices.tableRows) : at;
    return {reinterpret_cast<const void *>(at), (next - at) / product.bytes, rows, columns};
  }
  if (operand.of == Side::None)
    return {spills + operand.list * elements + matrices.first * product.bytes, matrices.distance, rows, columns};
  const int64_t before = ofRows ? 0 : phase.squares.rows * matrices.rows * matrices.rows;
  const int64_t floats = phase.spills * elements + matrices.firstSquares + before + operand.list * rows * rows;
  return {spills + floats * int64_t(sizeof(float)), matrices.squaresDistance, rows, columns};
}

} // namespace

altgrad_gemm altgrad::runtime::describeGeneral(const Product &product, const Matrices &matrices, const RowTables &rows,
                                               const Phase &phase, const Launch &launch) {
  Location places[3];
  for (int i = 0; i < 3; ++i)
    places[i] = placeOf(product.operands[i], product, matrices, rows, phase, launch);
  const auto &[a, b, c] = places;
  const bool turnsA = product.operands[0].transposed, turnsB = product.operands[1].transposed;
  altgrad_gemm gemm{};
  gemm.size = sizeof gemm;
  gemm.type = product.type;
  gemm.device = launch.device;
  gemm.stream = launch.stream;
  gemm.batch = matrices.count;
  gemm.a = a.data, gemm.b = b.data, gemm.c = const_cast<void *>(c.data);
  gemm.a_matrix = a.distance, gemm.b_matrix = b.distance, gemm.c_matrix = c.distance;
  gemm.m = c.rows, gemm.n = gemm.c_row = c.columns;
  gemm.k = turnsA ? a.rows : a.columns;
  gemm.a_row = turnsA ? 1 : a.columns, gemm.a_column = turnsA ? a.columns : 1;
  gemm.b_row = turnsB ? 1 : b.columns, gemm.b_column = turnsB ? b.columns : 1;
  gemm.alpha = 1;
  return gemm;
}

altgrad_status altgrad::runtime::factorize(const Product &product, const altgrad_gemm &gemm, const Phase &phase,
                                           const Launch &launch) {
  const Factorize &who = launch.factorize;
  // A factorization knows one distance for all its matrices.
  if (gemm.batch > 1 && (gemm.a_matrix != gemm.c_matrix || gemm.b_matrix != gemm.c_matrix)) {
    for (int64_t i = 0; i < gemm.batch; ++i)
      if (altgrad_status status = factorize(product, matrixOf(gemm, i), phase, launch))
        return status;
    return ALTGRAD_OK;
  }
  if (!who.factorize)
    return fail(ALTGRAD_UNAVAILABLE,
                "phase %s factorizes squares, and nobody does it: give a function to altgrad_set_factorize",
                phase.name.c_str());
  altgrad_factorization given{};
  given.size = sizeof given;
  given.batch = gemm.batch, given.rows = gemm.m, given.n = gemm.n, given.distance = gemm.c_matrix;
  given.square = static_cast<const float *>(gemm.a);
  given.basis = product.form == Form::Order ? static_cast<const float *>(gemm.b) : nullptr;
  given.factor = static_cast<float *>(gemm.c);
  given.root = product.root;
  given.what = int32_t(product.form) - int32_t(Form::Eigenbasis);
  given.device = gemm.device;
  given.stream = gemm.stream;
  int32_t error = 0;
  if (altgrad_status status = catchAll("a factorization", phase, [&] { error = who.factorize(&given, who.context); }))
    return status;
  if (error)
    return fail(ALTGRAD_SYSTEM,
                "a factorization of %s of %lld rows failed (%d) in phase %s, and nothing has changed: a square "
                "is singular or far from symmetric",
                gemm.m == gemm.n ? "squares" : "matrices", (long long)gemm.m, int(error), phase.name.c_str());
  return ALTGRAD_OK;
}
