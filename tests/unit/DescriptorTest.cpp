// What loading a bundle leaves open, and where the system refuses its memory.
#include "Folder.h"
#include "Sgd.h"

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

namespace {

using Loading = Folder;

TEST_F(Loading, ThousandsOfBundlesNeedNoDescriptors) {
  EXPECT_EQ(inChild([] {
              rlimit few{64, 64};
              setrlimit(RLIMIT_NOFILE, &few);
              std::vector<BundlePointer> all;
              for (int i = 0; i < 3000; ++i)
                all.push_back(loadSgd());
              return int(testing::Test::HasFailure());
            }),
            0)
      << printed;
}

// From now on the process gets no memory by a descriptor, as in some containers.
void refuseMemory() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  sock_fprog filter{4, program};
  ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
}

TEST_F(Loading, WhereMemoryIsRefusedAFileOfTheCacheDoes) {
  setenv("ALTGRAD_CACHE_DIR", (folder + "/cache").c_str(), 1);
  EXPECT_EQ(inChild([] {
              refuseMemory();
              PlanPointer first = planSgd(), second = planSgd();
              Tensors actual({5000}), expected({5000});
              actual.bind(second.get());
              EXPECT_EQ(actual.run(second.get()), ALTGRAD_OK);
              expected.step();
              EXPECT_TRUE(actual.equals(expected));
              return int(testing::Test::HasFailure());
            }),
            0)
      << printed;
  EXPECT_TRUE(std::filesystem::is_empty(folder + "/cache"));
}

TEST_F(Loading, WithNeitherMemoryNorACacheThereAreWords) {
  setenv("ALTGRAD_CACHE_DIR", "/dev/null/cache", 1);
  EXPECT_EQ(inChild([] {
              refuseMemory();
              altgrad_bundle *bundle = nullptr;
              EXPECT_REFUSED(altgrad_load(SGD_BUNDLE, &bundle), ALTGRAD_SYSTEM,
                             "in memory: Permission denied; nor in a file");
              return int(testing::Test::HasFailure());
            }),
            0)
      << printed;
}

} // namespace
