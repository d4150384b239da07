// The cache under truncated, altered, foreign and unwritable entries: a defect is a miss.
#include "files/Cache.h"
#include "Folder.h"
#include "files/Sha256.h"

#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <random>
#include <sys/resource.h>
#include <sys/time.h>

using namespace altgrad::runtime;

namespace {

using Bytes = std::vector<char>;

Bytes pattern(size_t size, int seed) {
  Bytes bytes(size);
  std::mt19937 random(static_cast<unsigned>(seed));
  for (char &byte : bytes)
    byte = char(random());
  return bytes;
}

class CacheFault : public Folder {
protected:
  std::string onlyEntry() {
    std::vector<std::string> names = list(cache);
    EXPECT_EQ(names.size(), 1u);
    return names.empty() ? "" : cache + "/" + names[0];
  }
  // In a child, because a warning is given once in a process.
  bool hits(const std::string &key, const Bytes &expected) {
    return inChild([&] {
             Bytes found;
             return Cache().find(key, found) && found == expected;
           }) == 1;
  }
  // Nothing is found or kept here, one warning is given, nothing crashes.
  void expectMemoryOnly(const char *words) {
    int result = inChild([&] {
      Bytes found;
      for (int i = 0; i < 3; ++i) {
        Cache one;
        one.keep("key", payload);
        if (one.find("key", found))
          return 2;
      }
      return 0;
    });
    EXPECT_EQ(result, 0);
    EXPECT_EQ(warnings(), 1u) << printed;
    EXPECT_NE(printed.find(words), std::string::npos) << printed;
  }
  const Bytes payload = pattern(300, 1);
};

// By the CPU's instructions, where it has them, and without.
TEST(Sha256, KnownDigests) {
  for (bool plainly : {false, true}) {
    auto digest = [&](const std::string &text) {
      Sha256 hash(plainly);
      for (char c : text) // byte by byte: every position in a block
        hash.update(&c, 1);
      return hexadecimal(hash.finish());
    };
    EXPECT_EQ(digest(""), "e3b0c44298fc1c149afbf4c8996fb924"
                          "27ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(digest("abc"), "ba7816bf8f01cfea414140de5dae2223"
                             "b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(digest(std::string(1000000, 'a')),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  }
}

TEST_F(CacheFault, KeepsAndFinds) {
  Cache one;
  Bytes found;
  EXPECT_FALSE(one.find("key", found));
  one.keep("key", payload);
  one.keep("other", pattern(10, 2));
  ASSERT_TRUE(one.find("key", found));
  EXPECT_EQ(found, payload);
  ASSERT_TRUE(Cache().find("other", found));
  EXPECT_EQ(found, pattern(10, 2));
}

TEST_F(CacheFault, OnlyTheOwnerCanRead) {
  umask(0);
  Cache().keep("key", payload);
  umask(022);
  struct stat info;
  ASSERT_EQ(stat(cache.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_EQ(stat(onlyEntry().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(CacheFault, EveryPrefixAndEveryExtensionIsAMiss) {
  Bytes whole = packEntry("key", payload);
  for (size_t size = 0; size <= whole.size() + 8; ++size) {
    Bytes part = whole;
    part.resize(size);
    ASSERT_EQ(unpackEntry("key", part), size == whole.size()) << size;
  }
}

TEST_F(CacheFault, EveryBitFlipIsAMiss) {
  Bytes whole = packEntry("key", payload);
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    Bytes flipped = whole;
    flipped[bit / 8] = char(flipped[bit / 8] ^ (1 << bit % 8));
    ASSERT_FALSE(unpackEntry("key", flipped)) << bit;
  }
}

TEST_F(CacheFault, DamageOnDiskIsAMissAndOneWarning) {
  Cache().keep("key", payload);
  std::string path = onlyEntry(), whole = read(path);
  whole[100] = char(whole[100] ^ 4);
  write(path, whole);
  EXPECT_FALSE(hits("key", payload));
  EXPECT_EQ(warnings(), 1u) << printed;
  Cache().keep("key", payload); // replaces it
  EXPECT_TRUE(hits("key", payload));
  EXPECT_EQ(warnings(), 0u) << printed;
}

TEST_F(CacheFault, AnEntryOfAnotherKeyIsAMiss) {
  Cache().keep("key", payload);
  std::string first = onlyEntry(), bytes = read(first);
  unlink(first.c_str());
  Cache().keep("kex", pattern(300, 9));
  write(onlyEntry(), bytes); // whole, but it answers another question
  EXPECT_FALSE(hits("kex", payload));
}

TEST_F(CacheFault, AnEntryThatIsNotAFileOfOursIsAMiss) {
  Cache().keep("key", payload);
  std::string path = onlyEntry(), elsewhere = folder + "/elsewhere";
  ASSERT_EQ(rename(path.c_str(), elsewhere.c_str()), 0);
  ASSERT_EQ(symlink(elsewhere.c_str(), path.c_str()), 0);
  EXPECT_FALSE(hits("key", payload)) << "a symlink";
  unlink(path.c_str());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_FALSE(hits("key", payload)) << "a FIFO, and no waiting for a writer";
  unlink(path.c_str());
  ASSERT_EQ(rename(elsewhere.c_str(), path.c_str()), 0);
  chmod(path.c_str(), 0666);
  EXPECT_FALSE(hits("key", payload)) << "writable by others";
  chmod(path.c_str(), 0600);
  EXPECT_TRUE(hits("key", payload));
}

TEST_F(CacheFault, KilledWritersLeaveNoHalfEntry) {
  Bytes big = pattern(100000, 3);
  std::mt19937 random(1);
  int complete = 0;
  for (int round = 0; round < 150; ++round) {
    pid_t child = fork();
    if (child == 0)
      for (Cache one;;)
        one.keep("key", big);
    usleep(random() % 12000);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    Bytes found;
    if (Cache().find("key", found)) {
      ASSERT_EQ(found, big);
      ++complete;
    }
    if (round % 3 == 0) {
      ASSERT_EQ(system(("rm -rf " + cache).c_str()), 0);
    }
  }
  EXPECT_GT(complete, 0);
}

TEST_F(CacheFault, ProcessesShareADirectory) {
  std::vector<pid_t> children;
  for (int p = 0; p < 8; ++p) {
    children.push_back(fork());
    if (children.back() == 0) {
      for (int i = 0; i < 160; ++i) {
        std::string key = "key " + std::to_string((i + p) % 8);
        Bytes expected = pattern(20000, (i + p) % 8), found;
        Cache one;
        if (one.find(key, found) && found != expected)
          _exit(1);
        one.keep(key, expected);
        if (!one.find(key, found) || found != expected)
          _exit(2);
      }
      _exit(0);
    }
  }
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(list(cache).size(), 8u) << "no temporary file is left";
}

TEST_F(CacheFault, AFullDiskCostsOneWarning) {
  Cache().keep("small", pattern(10, 4));
  int result = inChild([&] {
    Cache one;
    for (rlim_t limit : {0, 1, 100, 299, 370}) {
      rlimit size = {limit, RLIM_INFINITY};
      setrlimit(RLIMIT_FSIZE, &size);
      one.keep("key", payload);
    }
    rlimit size = {RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &size); // stderr is a file here
    Bytes found;
    return one.find("key", found) || !one.find("small", found);
  });
  EXPECT_EQ(result, 0) << "1025 would be SIGXFSZ";
  EXPECT_EQ(list(cache).size(), 1u) << "nothing half-written is left";
  EXPECT_EQ(warnings(), 1u) << printed;
  EXPECT_NE(printed.find("File too large"), std::string::npos) << printed;
}

TEST_F(CacheFault, NoDescriptorsLeftIsNoError) {
  Cache().keep("key", payload);
  int result = inChild([&] {
    rlimit none = {3, 3};
    setrlimit(RLIMIT_NOFILE, &none);
    Bytes found;
    Cache one;
    one.keep("key", payload);
    return int(one.find("key", found));
  });
  EXPECT_EQ(result, 0);
  EXPECT_NE(printed.find("Too many open files"), std::string::npos) << printed;
}

TEST_F(CacheFault, ASymlinkAsDirectoryIsRefused) {
  std::string real = folder + "/real";
  ASSERT_EQ(mkdir(real.c_str(), 0700), 0);
  ASSERT_EQ(symlink(real.c_str(), cache.c_str()), 0);
  expectMemoryOnly("cache: is a symbolic link, which others may turn elsewhere; name the folder itself");
  EXPECT_TRUE(list(real).empty());
}

// Every working directory would have one of its own.
TEST_F(CacheFault, ARelativeDirectoryIsRefused) {
  setenv("ALTGRAD_CACHE_DIR", "altgrad-relative/cache", 1);
  ASSERT_EQ(chdir(folder.c_str()), 0);
  expectMemoryOnly("altgrad-relative/cache: is a relative path");
  EXPECT_NE(access("altgrad-relative", F_OK), 0) << "nothing was made";
  ASSERT_EQ(chdir("/"), 0);
}

TEST_F(CacheFault, ADirectoryThatOthersCanWriteIsRefused) {
  for (mode_t mode : {0777, 0770, 0720, 0702}) {
    mkdir(cache.c_str(), 0700);
    ASSERT_EQ(chmod(cache.c_str(), mode), 0);
    expectMemoryOnly("is writable by others");
  }
}

TEST_F(CacheFault, AFileAsDirectoryIsRefused) {
  write(cache, "x");
  expectMemoryOnly("Not a directory");
}

TEST_F(CacheFault, ADirectoryOfAnotherUserIsRefused) {
  if (geteuid() != 0)
    GTEST_SKIP() << "only root can make one";
  ASSERT_EQ(mkdir(cache.c_str(), 0755), 0);
  ASSERT_EQ(chown(cache.c_str(), 65534, 65534), 0);
  expectMemoryOnly("belongs to another user");
}

TEST_F(CacheFault, AReadOnlyDirectoryIsNoError) {
  ASSERT_EQ(mkdir(cache.c_str(), 0500), 0);
  if (geteuid() == 0) { // root writes everywhere
    ASSERT_EQ(chown(cache.c_str(), 65534, 65534), 0);
  }
  int result = inChild([&] {
    if (geteuid() == 0 && setuid(65534) != 0)
      return 9;
    Bytes found;
    Cache one;
    one.keep("key", payload);
    one.keep("key", payload);
    return int(one.find("key", found));
  });
  EXPECT_EQ(result, 0);
  EXPECT_EQ(warnings(), 1u) << printed;
  EXPECT_NE(printed.find("Permission denied"), std::string::npos) << printed;
}

TEST_F(CacheFault, ADirectoryDeletedWhileRunningIsNoError) {
  int result = inChild([&] {
    Cache one;
    one.keep("key", payload);
    if (system(("rm -rf " + cache).c_str()) != 0)
      return 9;
    Bytes found;
    bool gone = !one.find("key", found);
    one.keep("key", payload);
    return gone ? 0 : 1;
  });
  EXPECT_EQ(result, 0);
}

TEST_F(CacheFault, TheDirectoryIsChosenInOrder) {
  auto usedIn = [&](const std::string &path) {
    EXPECT_EQ(inChild([&] {
                Cache().keep("key", payload);
                return 0;
              }),
              0);
    return list(path).size() == 1;
  };
  setenv("XDG_CACHE_HOME", (folder + "/xdg").c_str(), 1);
  std::string home = getenv("HOME") ? getenv("HOME") : "";
  setenv("HOME", (folder + "/home").c_str(), 1);
  EXPECT_TRUE(usedIn(cache));
  unsetenv("ALTGRAD_CACHE_DIR");
  EXPECT_TRUE(usedIn(folder + "/xdg/altgrad"));
  setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_TRUE(usedIn(folder + "/home/.cache/altgrad"));
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  EXPECT_EQ(inChild([] { return int(bool(Cache())); }), 0);
  EXPECT_EQ(warnings(), 0u);
  setenv("HOME", home.c_str(), 1);
}

TEST_F(CacheFault, TheLeastRecentlyUsedGoFirst) {
  setenv("ALTGRAD_CACHE_MAXSIZE", "5000", 1);
  Bytes found, big = pattern(1500, 6);
  Cache one;
  for (const char *key : {"a", "b", "c"}) {
    one.keep(key, big);
    usleep(20000); // times of files are coarse
  }
  ASSERT_TRUE(one.find("a", found)); // now "b" is the oldest
  usleep(20000);
  one.keep("d", big);
  EXPECT_TRUE(one.find("a", found));
  EXPECT_FALSE(one.find("b", found));
  EXPECT_TRUE(one.find("c", found));
  EXPECT_TRUE(one.find("d", found));
  unsetenv("ALTGRAD_CACHE_MAXSIZE");
}

TEST_F(CacheFault, OldTemporaryFilesAreRemovedAndNothingElse) {
  ASSERT_EQ(mkdir(cache.c_str(), 0700), 0);
  timeval old[2] = {{1000, 0}, {1000, 0}};
  for (const char *name : {"/.tmp-1-1", "/.tmp-2-2", "/mine"})
    write(cache + name, "x");
  utimes((cache + "/.tmp-1-1").c_str(), old);
  utimes((cache + "/mine").c_str(), old);
  Cache().keep("key", payload);
  EXPECT_EQ(access((cache + "/.tmp-1-1").c_str(), F_OK), -1);
  EXPECT_EQ(access((cache + "/.tmp-2-2").c_str(), F_OK), 0);
  EXPECT_EQ(access((cache + "/mine").c_str(), F_OK), 0);
}

} // namespace
