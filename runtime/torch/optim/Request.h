// What an optimizer asks of the compiler.
#ifndef ALTGRAD_TORCH_REQUEST_H
#define ALTGRAD_TORCH_REQUEST_H

#include "altgrad/rule_spec.h"
#include "table/Program.h"

#include <ATen/core/Tensor.h>
#include <map>
#include <set>

namespace altgrad::optim {

// What devices tell each other within a step: nothing; their sums and verdicts; what their products are, too.
enum class Joined { Nothing, Sums, Products };

// "state=key" of each state that has a name of its own in RuleParamState, by spaces.
std::string keysOf(const RuleSpec &spec);
// What a line of storage says of a stream; "" where it says nothing.
std::string wordOf(const std::string &line, const std::string &stream);

// Programs of one RuleSpec; each is compiled once.
class Compiler {
public:
  // Throws where the rule's file cannot be read. `entry`: one of the rule's in its place.
  explicit Compiler(RuleSpec spec, std::string entry = "");

  // The set of parameters of this type in a group with this rule, or "" for the optimizer's, and with these
  // compile-time options (by commas), in the words of the request. `numel`: of the whole tensor, 0 for one whose
  // states have no scales; `several`: other groups have other rules, and the storage has words for their states.
  std::string setLine(const std::string &rule, const std::string &options, c10::ScalarType type, c10::ScalarType grad,
                      int64_t numel, bool several);
  // The program of these sets, in their order, for the CPU or for GPUs;
  // `scaler`: the variant of a loss scaler, or "".
  const std::shared_ptr<const Program> &compile(const std::set<std::string> &lines, bool onHost, Joined joined,
                                                const std::string &scaler);

  // Whether units of so many elements end within blocks of a state, whose states then stay f32, as it warns; 0: it has
  // none.
  bool cutsBlocks(int64_t unit, const at::Tensor &param) const;

  // The type of parameters that are codes of the storage's grid.
  const std::optional<c10::ScalarType> &codes() const { return codes_; }

  // Whether some numbers are rounded by draws, or a rule may have random ones.
  bool draws() const {
    return storage.find("stochastic") != std::string::npos || !wordOf(storage, "rungs").empty() ||
           spec.text().find("random") != std::string::npos;
  }

  // Whether the storage says something of a stream, by its rule's name.
  bool names(const std::string &stream) const { return !wordOf(storage, stream).empty(); }
  // How a further copy of a parameter is stored, in full; "" without one.
  const std::string &copy() const { return copy_; }

private:
  std::string othersOf(const std::string &head);

  RuleSpec spec;
  std::string entry;
  std::string storage, copy_; // in full, by the rule's names of states
  std::string origin;         // the file that the rules are from
  std::optional<c10::ScalarType> codes_;
  std::map<std::tuple<std::set<std::string>, bool, Joined, std::string>, std::shared_ptr<const Program>> programs;
};

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_REQUEST_H
