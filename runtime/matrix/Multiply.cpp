// Shapes, strides and batches of products.
#include "matrix/Multiply.h"
#include "ForkSafety.h"
#include "Status.h"
#include "executor/Threads.h"

#include <algorithm>

using namespace altgrad::runtime;

namespace {

class Rows : public RowTables {
public:
  Rows(const Tables &tables, int64_t rowWords, const Phase &phase) : RowTables{tables, rowWords}, phase(phase) {}
  int64_t squaresOf(int64_t row) const {
    return phase.squares.slot < 0 ? 0 : word(row, ALTGRAD_ROW_HEADER + phase.squares.slot);
  }
  // Units lie without gaps behind the first one of their tensor.
  int64_t firstOf(int64_t row) const {
    const int64_t tensor = word(row, ALTGRAD_ROW_TENSOR);
    return word(tensor, ALTGRAD_ROW_FIRST_CHUNK) * ALTGRAD_CHUNK + (row - tensor) * word(row, ALTGRAD_ROW_NUMEL);
  }
  bool areAlike(int64_t one, int64_t other) const {
    for (altgrad_row_word which : {ALTGRAD_ROW_NUMEL, ALTGRAD_ROW_MATRIX_ROWS, ALTGRAD_ROW_MATRIX_COLUMNS})
      if (word(one, which) != word(other, which))
        return false;
    return true;
  }
  // Whether what products read of the caller's continues at `next` as it began at `row`, `index` matrices before.
  bool areInStep(int64_t row, int64_t next, int64_t index) const {
    const int64_t second = row + (next - row) / index;
    for (const Product &product : phase.products)
      for (const Operand &operand : product.operands)
        if (operand.in != Source::Workspace) {
          const int64_t first = addressOf(operand, row), distance = addressOf(operand, second) - first;
          if (distance <= 0 || distance % product.bytes != 0 || addressOf(operand, next) != first + index * distance)
            return false;
        }
    return true;
  }
  // One, or as many as its tensor has units, where these are rows of a matrix.
  int64_t tableRowsOf(int64_t row) const {
    const int64_t numel = word(row, ALTGRAD_ROW_NUMEL);
    return numel ? word(row, ALTGRAD_ROW_MATRIX_ROWS) * word(row, ALTGRAD_ROW_MATRIX_COLUMNS) / numel : 1;
  }
  Matrices batchFrom(int64_t row, int64_t end, int64_t most) const {
    const int64_t each = tableRowsOf(row), first = firstOf(row);
    const int64_t distance = row + each < end ? firstOf(row + each) - first : 0;
    const int64_t own = squaresOf(row), between = row + each < end ? squaresOf(row + each) - own : 0;
    int64_t count = 1;
    for (int64_t next = row + each;
         count < most && next < end && areAlike(row, next) && firstOf(next) == first + count * distance &&
         squaresOf(next) == own + count * between && areInStep(row, next, count);
         next += each)
      ++count;
    return {row,   count,    each, word(row, ALTGRAD_ROW_MATRIX_ROWS), word(row, ALTGRAD_ROW_MATRIX_COLUMNS),
            first, distance, own,  between};
  }

private:
  const Phase &phase;
};

// The operands as they lie: X is rows x columns, what is square n x n. `left` is first where X has no
// more rows than columns.
altgrad_gemm describe(const Product &product, const Matrices &matrices, const Launch &launch) {
  const bool wide = matrices.isWide();
  const int64_t n = matrices.shorter(), columns = matrices.columns;
  // Lists lie one behind the other, each as long as all chunks.
  auto at = [&](int64_t bytes) {
    return (char *)launch.args.spills + bytes * launch.args.nchunks * ALTGRAD_CHUNK + matrices.first * product.bytes;
  };
  altgrad_gemm gemm{};
  gemm.size = sizeof gemm;
  gemm.type = product.type;
  gemm.device = launch.device;
  gemm.stream = launch.stream;
  gemm.batch = matrices.count;
  gemm.a_matrix = gemm.b_matrix = gemm.c_matrix = matrices.distance;
  gemm.alpha = product.factor;
  gemm.beta = product.added < 0 ? 0 : product.weight;
  gemm.c = at(product.into);
  gemm.d = product.added < 0 ? nullptr : at(product.added);
  const bool first = product.form != Form::Side || wide;
  gemm.a = at(first ? product.left : product.right);
  gemm.b = at(first ? product.right : product.left);
  gemm.a_row = gemm.b_row = gemm.c_row = n;
  gemm.a_column = gemm.b_column = 1;
  gemm.m = gemm.n = gemm.k = n;
  if (product.form == Form::Gram) {
    gemm.k = wide ? columns : matrices.rows;
    (wide ? gemm.a_row : gemm.a_column) = columns;
    (wide ? gemm.a_column : gemm.a_row) = 1;
    (wide ? gemm.b_column : gemm.b_row) = columns;
    (wide ? gemm.b_row : gemm.b_column) = 1;
  } else if (product.form == Form::Side) {
    gemm.m = matrices.rows;
    gemm.n = gemm.c_row = columns;
    (wide ? gemm.b_row : gemm.a_row) = columns;
  }
  return gemm;
}

} // namespace

altgrad_status altgrad::runtime::multiplyOnce(const altgrad_gemm &gemm, const Phase &phase, const Launch &launch) {
  if (!launch.gemm.multiply && launch.library)
    return launch.library->multiply(gemm);
  if (!launch.gemm.multiply)
    return multiplyPlainly(gemm, phase, launch);
  int32_t error = 0;
  if (altgrad_status status =
          catchAll("the caller's gemm", phase, [&] { error = launch.gemm.multiply(&gemm, launch.gemm.context); }))
    return status;
  if (error)
    return fail(ALTGRAD_SYSTEM, "the caller's gemm failed (%d) in phase %s, and nothing has changed", int(error),
                phase.name.c_str());
  return ALTGRAD_OK;
}

altgrad_status altgrad::runtime::runItems(int64_t items, void (*body)(int64_t, int64_t, void *), void *context,
                                          const Phase &phase, const Launch &launch) {
  if (!launch.parallelFor)
    parallelFor(launch.threads, 0, items, 1, 1, body, context);
  else if (int32_t error = launch.parallelFor(0, items, 1, body, context))
    return fail(ALTGRAD_SYSTEM, "the caller's parallel_for failed (%d) in phase %s, and nothing has changed",
                int(error), phase.name.c_str());
  return ALTGRAD_OK;
}

// Read by every run and set by any thread.
static Gemm common;
static Factorize commonOfSquares;

// Never destroyed: a thread may still step.
static SymmetricGemm &ofSymmetric() {
  static auto *gemm = new SymmetricGemm;
  return *gemm;
}

SymmetricGemm altgrad::runtime::symmetricGemm() {
  std::lock_guard<std::mutex> held(ForkSafeLock<Gemm>::of());
  return ofSymmetric();
}

void altgrad::runtime::setSymmetricGemm(const SymmetricGemm &gemm) {
  std::lock_guard<std::mutex> held(ForkSafeLock<Gemm>::of());
  ofSymmetric() = gemm;
}

Factorize altgrad::runtime::commonFactorize() {
  std::lock_guard<std::mutex> held(ForkSafeLock<Gemm>::of());
  return commonOfSquares;
}

void altgrad::runtime::setCommonFactorize(const Factorize &factorize) {
  std::lock_guard<std::mutex> held(ForkSafeLock<Gemm>::of());
  commonOfSquares = factorize;
}

Gemm altgrad::runtime::commonGemm() {
  std::lock_guard<std::mutex> held(ForkSafeLock<Gemm>::of());
  return common;
}

void altgrad::runtime::setCommonGemm(const Gemm &gemm) {
  std::lock_guard<std::mutex> held(ForkSafeLock<Gemm>::of());
  common = gemm;
}

static altgrad_status multiplyBatch(const Product &product, altgrad_gemm gemm, const Phase &phase,
                                    const Launch &launch) {
  if (product.permutation >= 0 && gemm.device < 0)
    return permute(product, gemm, phase, launch);
  if (product.form == Form::Matmul)
    return gemm.device < 0 && product.isSymmetric() ? multiplySymmetric(gemm, /*shift=*/0, phase, launch)
                                                    : multiplyOnce(gemm, phase, launch);
  if (product.isGeneral())
    return factorize(product, gemm, phase, launch);
  if (gemm.device < 0 && product.form != Form::Side)
    return multiplySymmetric(gemm, product.shift, phase, launch);
  gemm.shift = product.shift;
  auto library = [&](int32_t strips) {
    altgrad_gemm given = gemm; // the caller's function may write to it
    given.strips = strips;
    return multiplyOnce(given, phase, launch);
  };
  const bool other = launch.symmetric && product.form != Form::Side;
  return other ? launch.symmetric->multiply(gemm, product.alone, library) : library(1);
}

// A NaN among the gradients goes the way of all NaNs; one that a product makes goes nowhere.
static altgrad_status checkFinite(const std::vector<char> &before, const std::vector<char> &after,
                                  const Matrices &matrices, const Tables &tables, const Phase &phase) {
  for (size_t i = 0; i < before.size(); ++i)
    if (before[i] && !after[i]) {
      const auto &firsts = tables.firstRows;
      auto next = std::upper_bound(firsts.begin(), firsts.end(), matrices.row + int64_t(i) * matrices.tableRows);
      return fail(ALTGRAD_SYSTEM,
                  "phase %s: the product of tensor %lld has a NaN or an infinity, though what was multiplied is "
                  "finite, and nothing has changed: what multiplies (altgrad_set_gemm) is wrong, or numbers are "
                  "beyond the operands' format",
                  phase.name.c_str(), (long long)(next - firsts.begin() - 1));
    }
  return ALTGRAD_OK;
}

// On a GPU nobody waits for what the products are.
static altgrad_status multiplyAlike(const Phase &phase, const Matrices &matrices, const Rows &rows,
                                    const Launch &launch) {
  std::vector<altgrad_gemm> gemms;
  for (const Product &product : phase.products)
    if (matrices.suit(product))
      gemms.push_back(product.isGeneral() ? describeGeneral(product, matrices, rows, phase, launch)
                                          : describe(product, matrices, launch));
  std::vector<char> before, after;
  if (launch.device < 0)
    if (altgrad_status status = findFinite(gemms, Numbers::Overwritten, before, phase, launch))
      return status;
  auto gemm = gemms.begin();
  for (const Product &product : phase.products)
    if (matrices.suit(product))
      if (altgrad_status status = multiplyBatch(product, *gemm++, phase, launch))
        return status;
  if (launch.device < 0)
    if (altgrad_status status = findFinite(gemms, Numbers::Results, after, phase, launch))
      return status;
  if (std::find(after.begin(), after.end(), 0) == after.end())
    return ALTGRAD_OK;
  if (altgrad_status status = findFinite(gemms, Numbers::Inputs, before, phase, launch))
    return status;
  return checkFinite(before, after, matrices, rows.tables, phase);
}

// How many matrices are a batch. On the host they are so many as stay in the threads' caches from one product to the
// next, and at least one for each thread.
static int64_t mostOf(const Rows &rows, int64_t row, const Phase &phase, const Launch &launch) {
  constexpr int64_t cached = 1 << 17; // elements
  if (phase.products.front().alone)
    return 1;
  const int64_t each = rows.word(row, ALTGRAD_ROW_MATRIX_ROWS) * rows.word(row, ALTGRAD_ROW_MATRIX_COLUMNS);
  if (launch.device >= 0 || each == 0)
    return INT64_MAX;
  return availableThreads() * std::max<int64_t>(cached / each, 1);
}

altgrad_status altgrad::runtime::multiplyMatrices(const Phase &phase, const Tables &tables, int64_t rowWords,
                                                  const Launch &launch) {
  const Items all = itemsOf(phase, tables, launch.part);
  const Rows rows(tables, rowWords, phase);
  for (int64_t row = all.begin, next; row < all.end; row = next) {
    const Matrices matrices = rows.batchFrom(row, all.end, mostOf(rows, row, phase, launch));
    next = row + matrices.count * matrices.tableRows;
    if (rows.word(row, ALTGRAD_ROW_NUMEL) != 0) // not a stack of no matrices, whatever their shape
      if (altgrad_status status = multiplyAlike(phase, matrices, rows, launch))
        return status;
  }
  return ALTGRAD_OK;
}
