// A compiled step as the C ABI describes it: found by set, role and key, never
// by name or order.
#ifndef ALTGRAD_TORCH_PROGRAM_H
#define ALTGRAD_TORCH_PROGRAM_H

#include "tensors/Errors.h"

#include <c10/core/ScalarType.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace altgrad::optim {

struct Stream {
  std::string name, key;
  int32_t role;
  c10::ScalarType type;
  int32_t block;       // elements that share one value; 0: all of a tensor, or of a state all of a row
  bool packed = false; // codes of two neighbours share a byte
  int32_t columns = 0; // that a block over rows spans: 1 or 128
  int32_t scaled = 1;  // elements that share a scale, which is another stream

  // How many elements share a value, in rows of so many.
  int64_t share(int64_t rowLength) const { return (block ? block : rowLength) * (packed ? 2 : 1); }
};

struct Scalar {
  std::string name, key;
  int32_t role, access, type;
  std::optional<double> byDefault;

  // How many lie behind its pointer.
  int64_t numbers() const { return role == ALTGRAD_ROLE_HISTORY ? ALTGRAD_HISTORY : 1; }

  c10::ScalarType scalarType() const;
};

// What the tensors of a set have.
struct Set {
  std::optional<Stream> param, grad;
  std::vector<Stream> kept;       // states, master or remainder, copy, scales, inputs
  std::vector<Scalar> hypers;     // one value for each group
  std::optional<Scalar> step;     // counts the steps of each tensor
  std::optional<Scalar> norm;     // f32, of each tensor
  std::vector<Scalar> statistics; // f32, what a step says of each tensor
  bool multiplies = false;        // its tensors are matrices
  bool places = false;            // it matters where in its tensor an element is
};

// Where other devices' or ranks' sums may join.
struct ExchangeWord {
  uint64_t offset;   // bytes into the workspace
  int32_t reduction; // ALTGRAD_AND: of an i32; else of an f32
};
struct Exchange {
  int64_t phase; // it comes before
  std::vector<ExchangeWord> words;
};

struct Program {
  // Throws where the step has something that no tensor or optimizer provides.
  explicit Program(std::shared_ptr<altgrad_bundle> bundle);

  std::shared_ptr<altgrad_bundle> bundle;
  std::vector<Set> sets;
  std::vector<Scalar> singles; // of the whole step
  std::vector<Exchange> exchanges;

private:
  void readStreams();
  void readScalars();
};

// Asks for the CPU's code, or for that of GPUs, in the word that stock bundles
// are built with.
const char *targetsFor(bool onHost);

// The program of a request, an option on each line; `text` is the user's own
// rules, `compiler` a path. Throws the compiler's diagnostics.
std::shared_ptr<const Program> compileProgram(const std::string &options, const std::string &text = "",
                                              const std::string &compiler = "");

// How altgrad-opt spells a type that a stream may have; throws for others.
std::string formatOf(c10::ScalarType type);

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_PROGRAM_H
