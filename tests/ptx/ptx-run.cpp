// Command line: parse PTX files, launch a kernel on scratch memory, count
// forms.
#include "Coverage.h"
#include "Machine.h"
#include "Parser.h"

#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>

using namespace ptx;

namespace {

const char Help[] =
    "usage: ptx-run FILE.ptx...                       parse, or say what is "
    "wrong\n"
    "       ptx-run --coverage FILE.ptx...            list the forms used\n"
    "       ptx-run --coverage --tested=LIST [--least=N] FILE.ptx...\n"
    "                       and fail when one has fewer than N (1) tested "
    "cases\n"
    "       ptx-run --launch=KERNEL [--grid=N] [--block=N] [--steps=N]\n"
    "               [--buffer=BYTES]... [--value=HEXBYTES]... FILE.ptx\n"
    "                       parameters in order: zeroed buffers, bytes as "
    "given\n"
    "exit code: 0 fine, 1 refused or faulty, 2 wrong command line\n";

struct Options {
  bool coverage = false;
  std::string tested, kernel;
  uint64_t least = 1;
  LaunchOptions launch;
  std::vector<std::pair<bool, std::string>> parameters; // is buffer, text
  std::vector<std::string> files;
};

/// A mistake on the command line, as opposed to one in a file.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The whole text must be a number: "12x" is refused.
uint64_t number(const std::string &s) {
  size_t used = 0;
  unsigned long long n = 0;
  try {
    n = std::stoull(s, &used);
  } catch (const std::exception &) {
  }
  if (s.empty() || used != s.size() || s[0] == '-')
    throw UsageError("'" + s + "' is not a number");
  return n;
}

uint32_t dimension(const std::string &s) {
  uint64_t n = number(s);
  if (n > UINT32_MAX)
    throw UsageError("'" + s + "' is too large");
  return uint32_t(n);
}

Options parseArguments(int argc, char **argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    std::string arg = argv[i];
    size_t equals = arg.find('=');
    std::string name = arg.substr(0, equals);
    std::string value =
        equals == std::string::npos ? "" : arg.substr(equals + 1);
    if (arg == "--coverage")
      o.coverage = true;
    else if (name == "--tested")
      o.tested = value;
    else if (name == "--least")
      o.least = number(value);
    else if (name == "--launch")
      o.kernel = value;
    else if (name == "--grid")
      o.launch.grid[0] = dimension(value);
    else if (name == "--block")
      o.launch.block[0] = dimension(value);
    else if (name == "--steps")
      o.launch.stepLimit = number(value);
    else if (name == "--buffer" || name == "--value")
      o.parameters.push_back({name == "--buffer", value});
    else if (arg[0] == '-')
      throw UsageError("unknown option '" + arg + "'");
    else
      o.files.push_back(arg);
  }
  if (o.files.empty())
    throw UsageError("no file");
  if (!o.kernel.empty() && o.files.size() != 1)
    throw UsageError("one file can be launched at a time");
  return o;
}

std::string readFile(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in)
    throw std::runtime_error("cannot be read");
  return text.str();
}

void appendHex(const std::string &digits, std::vector<uint8_t> &out) {
  if (digits.size() % 2 ||
      digits.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos)
    throw UsageError("'" + digits + "' is not a string of hexadecimal bytes");
  for (size_t i = 0; i < digits.size(); i += 2)
    out.push_back(uint8_t(std::stoi(digits.substr(i, 2), nullptr, 16)));
}

bool launch(Module &module, Options &o) {
  const Kernel *kernel = module.find(o.kernel);
  if (!kernel) {
    std::cerr << o.files[0] << ": no kernel '" << o.kernel << "'\n";
    return false;
  }
  Memory memory;
  for (ModuleVariable &v : module.variables)
    if (v.space == Space::Global)
      memory.map(v.name, v.address, v.bytes.size(), v.bytes.data(), 0);
  // Buffers lie apart, so that running off one is seen.
  uint64_t next = 0x100000000;
  for (const auto &[isBuffer, text] : o.parameters) {
    if (!isBuffer) {
      appendHex(text, o.launch.parameters);
      continue;
    }
    uint64_t bytes = number(text);
    memory.map("buffer " + hex(next), next, bytes, nullptr, 0);
    auto at = reinterpret_cast<const uint8_t *>(&next);
    o.launch.parameters.insert(o.launch.parameters.end(), at, at + 8);
    next = alignUp(next + bytes, 4096) + 4096;
  }
  LaunchResult r = Machine(module, *kernel, memory, o.launch).run();
  if (r.fault != FaultKind::None)
    std::cerr << o.files[0] << ": " << r.message << "\n";
  else
    std::cout << r.steps << " thread-instructions\n";
  return r.fault == FaultKind::None;
}

bool reportCoverage(const Options &o, const FormCounts &used) {
  for (const auto &[form, count] : used)
    std::cout << count << "\t" << form << "\n";
  if (o.tested.empty())
    return true;
  std::ifstream in(o.tested);
  if (!in)
    throw std::runtime_error(o.tested + ": cannot be read");
  auto missing = untested(used, readTested(in), o.least);
  for (const std::string &form : missing)
    std::cerr << "no test: " << form << "\n";
  std::cerr << used.size() - missing.size() << " of " << used.size()
            << " forms have at least " << o.least << " tested cases\n";
  return missing.empty();
}

int run(Options o) {
  bool good = true;
  FormCounts used;
  // One bad file does not hide the next.
  for (const std::string &file : o.files) {
    try {
      auto module = parseModule(readFile(file));
      for (const auto &[form, count] : countForms(*module))
        used[form] += count;
      if (!o.kernel.empty())
        good &= launch(*module, o);
    } catch (const UsageError &) {
      throw;
    } catch (const std::exception &e) {
      std::cerr << file << ": " << e.what() << "\n";
      good = false;
    }
  }
  if (o.coverage)
    good &= reportCoverage(o, used);
  return good ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
  try {
    return run(parseArguments(argc, argv));
  } catch (const UsageError &e) {
    std::cerr << "ptx-run: " << e.what() << "\n" << Help;
    return 2;
  } catch (const std::exception &e) {
    std::cerr << "ptx-run: " << e.what() << "\n";
    return 1;
  }
}
