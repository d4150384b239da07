// A folder for one test, and a process for what only a process can show.
#ifndef ALTGRAD_TESTS_FOLDER_H
#define ALTGRAD_TESTS_FOLDER_H

#include <cstdlib>
#include <dirent.h>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <memory>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

class Folder : public testing::Test {
protected:
  void SetUp() override {
    char name[] = "/tmp/altgrad-unit-XXXXXX";
    ASSERT_TRUE(mkdtemp(name));
    folder = name;
    chmod(name, 0755); // a test may become another user
    cache = folder + "/cache";
    setenv("ALTGRAD_CACHE_DIR", cache.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("ALTGRAD_CACHE_DIR");
    ASSERT_EQ(system(("rm -rf " + folder).c_str()), 0);
  }

  static std::string read(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  static void write(const std::string &path, const std::string &text) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  }
  static std::vector<std::string> list(const std::string &path) {
    std::vector<std::string> names;
    std::unique_ptr<DIR, int (*)(DIR *)> all(opendir(path.c_str()), closedir);
    while (dirent *item = all ? readdir(all.get()) : nullptr)
      if (std::string(item->d_name) != "." && std::string(item->d_name) != "..")
        names.push_back(item->d_name);
    return names;
  }

  // Runs `body` in a child; its result, or 1000 + the signal that ended it.
  // What it prints to stderr is in `printed`.
  template <typename Body> int inChild(Body &&body) {
    std::string path = folder + "/stderr";
    pid_t child = fork();
    if (child == 0) {
      alarm(300);
      if (!freopen(path.c_str(), "w", stderr))
        _exit(99);
      int result = body();
      fflush(stderr);
      _exit(result);
    }
    int status = 0;
    waitpid(child, &status, 0);
    printed = read(path);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
  }

  size_t warnings() const {
    size_t count = 0, place = 0;
    while ((place = printed.find("altgrad: warning:", place)) !=
           std::string::npos)
      ++count, ++place;
    return count;
  }

  std::string folder, cache, printed;
};

#endif // ALTGRAD_TESTS_FOLDER_H
