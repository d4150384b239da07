// What the unit tests share: a kernel around a few instructions, launched
// through the C interface.
#ifndef ALTGRAD_TESTS_PTX_TESTVM_H
#define ALTGRAD_TESTS_PTX_TESTVM_H

#include "ptxinterp.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace ptx::test {

inline std::string header(const std::string &body) {
  return ".version 7.8\n.target sm_90\n.address_size 64\n" + body;
}

/// Kernel `k` with one pointer in %rd0, %tid.x in %r0, %ctaid.x in %r1 and the
/// address of thread t's 4 bytes in %rd1. The body begins in line 15.
inline std::string
kernel(const std::string &body,
       const std::string &globals = ".shared .align 16 .b32 sh[64];") {
  return header(globals + "\n" + R"(.visible .entry k(.param .u64 out)
{
.reg .pred %p<8>;
.reg .b16 %h<8>;
.reg .b32 %r<32>, %f<8>;
.reg .b64 %rd<16>;
ld.param.b64 %rd0, [out];
mov.u32 %r0, %tid.x;
mov.u32 %r1, %ctaid.x;
mad.wide.u32 %rd1, %r0, 4, %rd0;
)" + body + "\nret;\n}\n");
}

class Vm {
public:
  explicit Vm(const std::string &text) : vm(ptx_create(text.c_str())) {
    EXPECT_NE(vm, nullptr) << ptx_error();
    options.grid[0] = options.grid[1] = options.grid[2] = 1;
    options.block[0] = options.block[1] = options.block[2] = 1;
  }
  ~Vm() { ptx_destroy(vm); }
  Vm(const Vm &) = delete;

  template <class T> void map(std::vector<T> &v, unsigned flags = 0) {
    EXPECT_TRUE(
        ptx_map(vm, uint64_t(v.data()), v.data(), v.size() * sizeof(T), flags))
        << ptx_error();
  }

  /// Appends a parameter; the tests list them in the kernel's order.
  template <class T> Vm &with(T value) {
    size_t at = (parameters.size() + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    parameters.resize(at + sizeof(T));
    std::memcpy(&parameters[at], &value, sizeof(T));
    return *this;
  }
  template <class T> Vm &with(std::vector<T> &v) {
    return with(uint64_t(v.data()));
  }
  Vm &size(uint32_t grid, uint32_t block) {
    options.grid[0] = grid;
    options.block[0] = block;
    return *this;
  }

  bool launch(const char *name = "k") {
    options.parameters = parameters.data();
    options.parameter_bytes = parameters.size();
    bool good = ptx_launch(vm, name, &options);
    message = good ? "" : ptx_error();
    return good;
  }

  /// The kind of fault, "none" for a good run.
  std::string fault(const char *name = "k") {
    launch(name);
    return ptx_fault_kind(vm);
  }

  ptx_vm *vm;
  ptx_launch_options options{};
  std::vector<uint8_t> parameters;
  std::string message;
};

/// Runs a body on a zeroed buffer of `words`; the fault's name.
inline std::string faultOf(const std::string &body, uint32_t grid = 1,
                           uint32_t block = 1, unsigned flags = 0,
                           std::string *message = nullptr) {
  Vm vm(kernel(body));
  std::vector<uint32_t> out(256);
  vm.map(out, flags);
  std::string kind = vm.with(out).size(grid, block).fault();
  if (message)
    *message = vm.message;
  return kind;
}

inline std::string refusal(const std::string &text) {
  ptx_vm *vm = ptx_create(text.c_str());
  if (!vm)
    return ptx_error();
  ptx_destroy(vm);
  return "accepted";
}

inline std::string readKernel(const std::string &name) {
  std::ifstream in(std::string(PTX_KERNELS) + "/" + name);
  EXPECT_TRUE(in.good()) << name;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

} // namespace ptx::test

#endif
