// Counting forms is counting instructions: every instruction knows its form.
#include "Coverage.h"

using namespace ptx;

FormCounts ptx::countForms(const Module &module) {
  FormCounts counts;
  for (const auto &entry : module.kernels) {
    const std::vector<Instruction> &code = entry.second->code;
    // The last instruction is the return that the parser appends.
    for (size_t i = 0; i + 1 < code.size(); ++i)
      ++counts[code[i].form->name];
  }
  return counts;
}

FormCounts ptx::readTested(std::istream &in) {
  FormCounts counts;
  unsigned number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.empty() || line[0] == '#')
      continue;
    size_t tab = line.find('\t');
    std::string digits = tab == std::string::npos ? "" : line.substr(tab + 1);
    if (digits.empty() || digits.size() > 15 ||
        digits.find_first_not_of("0123456789") != std::string::npos)
      throw std::runtime_error("line " + std::to_string(number) +
                               ": not 'form<tab>cases'");
    counts[line.substr(0, tab)] += std::stoull(digits);
  }
  return counts;
}

std::vector<std::string> ptx::untested(const FormCounts &used,
                                       const FormCounts &tested,
                                       uint64_t least) {
  std::vector<std::string> missing;
  for (const auto &entry : used) {
    auto it = tested.find(entry.first);
    if (it == tested.end() || it->second < least)
      missing.push_back(entry.first);
  }
  return missing;
}
