// Phases that multiply matrices.
#ifndef ALTGRAD_RUNTIME_MULTIPLY_H
#define ALTGRAD_RUNTIME_MULTIPLY_H

#include "Status.h"
#include "altgrad/strips.h"
#include "executor/Executor.h"

#include <algorithm>
#include <exception>

namespace altgrad::runtime {

// Who multiplies for plans that nobody has given a function of their own.
Gemm commonGemm();
void setCommonGemm(const Gemm &gemm);
// Who does symmetric products on GPUs where that is fastest.
SymmetricGemm symmetricGemm();
void setSymmetricGemm(const SymmetricGemm &gemm);
// And who factorizes squares.
Factorize commonFactorize();
void setCommonFactorize(const Factorize &factorize);

// Neighbouring matrices of one shape, whose lists lie at equal distances. Each has so many rows of the table.
struct Matrices {
  int64_t row, count, tableRows, rows, columns;
  int64_t first, distance;               // in elements of a list
  int64_t firstSquares, squaresDistance; // in floats behind all lists of elements

  int64_t shorter() const { return std::min(rows, columns); }
  bool isWide() const { return rows <= columns; }
  bool suit(const Product &product) const {
    const double n = double(shorter()), m = double(std::max(rows, columns));
    return m >= product.least * n && m < product.below * n;
  }
};

// The tables of a plan, whose rows are so many words.
struct RowTables {
  const Tables &tables;
  int64_t rowWords;
  int64_t word(int64_t row, int64_t which) const { return int64_t(tables.rows[size_t(row * rowWords + which)]); }
  // Where an operand of the caller's lies.
  int64_t addressOf(const Operand &operand, int64_t row) const {
    if (operand.in == Source::Rows)
      return word(row, ALTGRAD_ROW_HEADER + operand.list);
    const size_t inputs = tables.inputs.size() / size_t(tables.nrows);
    return int64_t(tables.inputs[size_t(row) * inputs + size_t(operand.list)]);
  }
};

// The operands of matrices that say their rows and columns, as they lie; those of a factorization are all m x n.
altgrad_gemm describeGeneral(const Product &product, const Matrices &matrices, const RowTables &rows,
                             const Phase &phase, const Launch &launch);
// A factorization, whose operands are those of `gemm`.
altgrad_status factorize(const Product &product, const altgrad_gemm &gemm, const Phase &phase, const Launch &launch);

// Does all products of a phase for one tensor after the other. Neighbours of one shape are one batch.
altgrad_status multiplyMatrices(const Phase &phase, const Tables &tables, int64_t rowWords, const Launch &launch);

// Of each matrix of a batch on the host whether numbers are finite that its products read and overwrite, that they only
// read, or that they leave: a byte for each becomes 0 where there is a NaN or an infinity.
enum class Numbers { Overwritten, Inputs, Results };
altgrad_status findFinite(const std::vector<altgrad_gemm> &products, Numbers which, std::vector<char> &finite,
                          const Phase &phase, const Launch &launch);

// Does items of such a phase on the plan's threads, or by the caller's function.
altgrad_status runItems(int64_t items, void (*body)(int64_t, int64_t, void *), void *context, const Phase &phase,
                        const Launch &launch);

// What a function of the caller's throws goes no further. Success if it returns, whatever it says.
template <typename Call> altgrad_status catchAll(const char *whose, const Phase &phase, Call call) {
  try {
    call();
    return ALTGRAD_OK;
  } catch (const std::exception &exception) {
    return fail(ALTGRAD_SYSTEM, "%s threw in phase %s, and nothing has changed: %s", whose, phase.name.c_str(),
                exception.what());
  } catch (...) {
    return fail(ALTGRAD_SYSTEM, "%s threw in phase %s, and nothing has changed", whose, phase.name.c_str());
  }
}

// One call of the function that multiplies, or of the plain kernel, which is the host's.
altgrad_status multiplyOnce(const altgrad_gemm &gemm, const Phase &phase, const Launch &launch);

// A product with a permutation, which is the operand that `product` says, on the host: rows or columns of the other one
// in its order.
altgrad_status permute(const Product &product, const altgrad_gemm &gemm, const Phase &phase, const Launch &launch);

// A symmetric product: strips of rows up to the diagonal, and a copy of what is below it. `shift` is added to
// the diagonal of f16 or f32.
altgrad_status multiplySymmetric(const altgrad_gemm &gemm, double shift, const Phase &phase, const Launch &launch);

// The plain kernel: sums are f32, with one fma for each term in the order of k, and the same bits for
// any number of threads and any batch. Nearest, ties to even; a NaN is the canonical one.
altgrad_status multiplyPlainly(const altgrad_gemm &gemm, const Phase &phase, const Launch &launch);

} // namespace altgrad::runtime

#endif // ALTGRAD_RUNTIME_MULTIPLY_H
