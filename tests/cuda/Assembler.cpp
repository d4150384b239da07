// What the real assembler says of a module: whether it takes it, and how many
// registers a thread of each kernel has. FAKE_CUDA_PTXAS names it; what it said
// of a text is kept in a folder beside its like.
#include "Fake.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace fakecuda;

namespace {

std::string folder() {
  const char *temporary = getenv("TMPDIR");
  std::string path = std::string(temporary ? temporary : "/tmp") +
                     "/altgrad-ptxas-" + std::to_string(getuid());
  mkdir(path.c_str(), 0700);
  return path;
}

// FNV-1a: the same in every process.
uint64_t hashOf(const std::string &text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char byte : text)
    hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

// Everything that the command says, and after it a line with its status.
std::string runPtxas(const std::string &ptxas, const std::string &target,
                     const std::string &text, const std::string &path) {
  std::string file = path + "." + std::to_string(getpid());
  std::ofstream(file + ".ptx") << text;
  std::string command = "'" + ptxas + "' -v -arch=" + target + " '" + file +
                        ".ptx' -o /dev/null > '" + file + "' 2>&1";
  int status = system(command.c_str());
  std::ofstream(file, std::ios::app) << "status " << status << "\n";
  unlink((file + ".ptx").c_str());
  rename(file.c_str(), path.c_str());
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

} // namespace

Result fakecuda::assemble(const std::string &text,
                          std::map<std::string, int> &registers,
                          std::string &why) {
  const char *ptxas = getenv("FAKE_CUDA_PTXAS");
  if (!ptxas || !*ptxas)
    return 0;
  std::string target = "sm_" + std::to_string(state().get("capability"));
  if (text.find(".target " + target + "a") != std::string::npos)
    target += "a";
  std::string path =
      folder() + "/" + ptx::hex(hashOf(ptxas + target + text)).substr(2);
  std::ifstream kept(path);
  std::string said = kept ? std::string(std::istreambuf_iterator<char>(kept), {})
                          : runPtxas(ptxas, target, text, path);
  std::istringstream lines(said);
  std::string kernel;
  bool good = false;
  for (std::string line; std::getline(lines, line);) {
    size_t name = line.find("entry function '");
    size_t used = line.find("Used ");
    if (name != std::string::npos)
      kernel = line.substr(name + 16, line.find('\'', name + 16) - name - 16);
    else if (used != std::string::npos)
      registers[kernel] = atoi(line.c_str() + used + 5);
    else if (line.find("error") != std::string::npos ||
             line.find("fatal") != std::string::npos)
      why += line + "\n";
    good = line == "status 0";
  }
  if (good)
    return 0;
  if (why.empty())
    why = said;
  fprintf(stderr, "fakecuda: ptxas refuses: %s\n", why.c_str());
  return InvalidPtx;
}

// As cuda_occupancy.h counts: registers are given out in units of 256 to warps,
// four of which share a file of a quarter of them.
int fakecuda::residentBlocks(const Function &function, uint64_t threads,
                             uint64_t dynamicShared) {
  if (int64_t asked = state().get("occupancy"))
    return int(asked);
  int64_t capability = state().get("capability");
  bool isSmall = capability == 86 || capability == 87 || capability == 89;
  uint64_t warps = (threads + 31) / 32, most = isSmall ? 48 : 64;
  uint64_t blocks = capability == 80 || capability == 90 ? 32
                    : capability == 89                   ? 24
                                                         : 16;
  blocks = std::min(blocks, most / warps);
  uint64_t ofWarp = (uint64_t(registersOf(function)) * 32 + 255) / 256 * 256;
  if (ofWarp)
    blocks = std::min(blocks, 16384 / ofWarp * 4 / warps);
  uint64_t room = capability >= 90                       ? 228
                  : capability == 80 || capability == 87 ? 164
                                                         : 100;
  uint64_t shared = function.kernel->sharedBytes + dynamicShared + 1024;
  return int(std::min(blocks, room * 1024 / ((shared + 127) / 128 * 128)));
}

int fakecuda::registersOf(const Function &function) {
  if (int64_t asked = state().get("registers"))
    return int(asked);
  constexpr int withoutPtxas = 40;
  auto found = function.module->registers.find(function.kernel->name);
  return found == function.module->registers.end() ? withoutPtxas
                                                   : found->second;
}
