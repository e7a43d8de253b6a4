#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

#include "tconv3d/error.hpp"
#include "tconv3d/executor.hpp"

namespace tconv3d {
namespace {

void expect_each_task_once(Executor& executor, int64_t tasks) {
    std::vector<std::atomic<int>> runs(static_cast<size_t>(tasks));
    std::vector<std::atomic<int>> busy(static_cast<size_t>(executor.workers()));
    std::atomic<bool> shared_worker{false};
    executor.run(tasks, [&](int64_t task, int worker) {
        if (busy.at(static_cast<size_t>(worker)).fetch_add(1) != 0) shared_worker = true;
        runs.at(static_cast<size_t>(task)).fetch_add(1);
        busy.at(static_cast<size_t>(worker)).fetch_sub(1);
    });
    for (const std::atomic<int>& count : runs) EXPECT_EQ(count, 1);
    EXPECT_FALSE(shared_worker);
}

TEST(Executor, RunsEachTaskOnceAndSharesNoWorker) {
    SerialExecutor serial;
    ThreadExecutor threads(4);
    for (int64_t tasks : {0, 1, 3, 1000}) {
        expect_each_task_once(serial, tasks);
        expect_each_task_once(threads, tasks);
    }
}

TEST(Executor, PassesOnTheExceptionOfATask) {
    SerialExecutor serial;
    ThreadExecutor threads(3);
    for (Executor* executor : {static_cast<Executor*>(&serial), static_cast<Executor*>(&threads)}) {
        const auto body = [](int64_t task, int) {
            if (task == 5) throw std::domain_error("task 5");
        };
        EXPECT_THROW(executor->run(100, body), std::domain_error);
        expect_each_task_once(*executor, 10);
    }
}

TEST(ThreadExecutor, HasTheThreadsThatWereAskedFor) {
    EXPECT_EQ(ThreadExecutor(3).workers(), 3);
    EXPECT_GE(ThreadExecutor().workers(), 1);
    EXPECT_THROW(ThreadExecutor(-1), Error);
}

} // namespace
} // namespace tconv3d
