// The description of a compiled step, with the memory that its lists are in.
#ifndef ALTGRAD_CORE_PROGRAM_H
#define ALTGRAD_CORE_PROGRAM_H

#include "StorageLine.h"
#include "altgrad_program.h"

#include <cstddef>
#include <deque>
#include <vector>

namespace altgrad::core {

class Program : public altgrad_core_program {
public:
  // Throws a Refusal where the step has something that no optimizer can give it, or two states have one key.
  explicit Program(altgrad_bundle *bundle, const Words &keys = {});
  Program(const Program &) = delete;

private:
  struct Lists {
    std::vector<altgrad_core_stream> states;
    std::vector<altgrad_core_scalar> hypers, statistics;
  };

  void readStreams(altgrad_bundle *bundle);
  void readScalars(altgrad_bundle *bundle);
  void give(const altgrad_core_scalar &scalar, int32_t scope, std::size_t index);
  void nameStates(std::size_t index, const Words &keys);
  void readPhases(altgrad_bundle *bundle);
  void readSums(altgrad_bundle *bundle);

  std::vector<altgrad_core_set> sets_;
  std::deque<std::string> names; // keys of states
  std::vector<Lists> lists;
  std::deque<altgrad_core_stream> streams; // parameters and gradients, which stay where they are
  std::deque<altgrad_core_scalar> scalars; // counts and norms
  std::vector<altgrad_core_scalar> singles_;
  std::vector<altgrad_core_exchange> exchanges_;
  std::deque<std::vector<altgrad_exchange_word>> words;
  std::vector<altgrad_partial_info> partials_;
  std::vector<altgrad_warning_info> limits_;
  std::vector<int32_t> kinds_;
};

} // namespace altgrad::core

#endif // ALTGRAD_CORE_PROGRAM_H
