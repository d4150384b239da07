// A compiled step as the core describes it: found by set, role and key, never by name or order.
#ifndef ALTGRAD_TORCH_PROGRAM_H
#define ALTGRAD_TORCH_PROGRAM_H

#include "core/altgrad_program.h"
#include "core/altgrad_request.h"
#include "tensors/Errors.h"

#include <c10/core/ScalarType.h>
#include <c10/util/ArrayRef.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace altgrad::optim {

using Stream = altgrad_core_stream;
using Scalar = altgrad_core_scalar;
using Set = altgrad_core_set;

inline c10::ArrayRef<Stream> entries(const altgrad_core_streams &of) { return {of.at, size_t(of.count)}; }
inline c10::ArrayRef<Scalar> entries(const altgrad_core_scalars &of) { return {of.at, size_t(of.count)}; }
inline bool is(const char *key, std::string_view other) { return key == other; }

inline c10::ScalarType typeOf(const Stream &stream) { return c10::ScalarType(stream.dtype); }
c10::ScalarType typeOf(const Scalar &scalar);

// Before `phase`, other devices or ranks may join these words; where there are none, other ranks these sums over
// tensors of which they have parts, by their numbers.
struct Stop {
  int64_t phase;
  std::vector<altgrad_exchange_word> words;
  std::vector<int64_t> partials = {};
  bool isAll(int32_t reduction) const;
};

class Program {
public:
  explicit Program(const altgrad_core_program *of);

  std::shared_ptr<const altgrad_core_program> description;
  std::shared_ptr<altgrad_bundle> bundle; // its
  c10::ArrayRef<Set> sets;
  c10::ArrayRef<Scalar> singles; // of the whole step
  // Verdicts of several sets come together at the last of them: other devices and ranks have other sets, and stop as
  // often.
  std::vector<Stop> stops;
  c10::ArrayRef<altgrad_partial_info> partials; // sums over a tensor
  c10::ArrayRef<altgrad_warning_info> limits;
};

// The program of a request, with the lines of its sets. Throws the compiler's diagnostics.
std::shared_ptr<const Program> compileProgram(altgrad_core_request of, const std::vector<std::string> &sets);

// How altgrad-opt spells a type that a stream may have; throws for others.
std::string formatOf(c10::ScalarType type);

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_PROGRAM_H
