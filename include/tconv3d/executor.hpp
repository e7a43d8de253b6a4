#pragma once

#include <cstdint>
#include <functional>

namespace tconv3d {

/// Where threads come from. tconv3d makes none of its own: the caller lends them (PyTorch's pool under PyTorch).
class Executor {
public:
    virtual ~Executor() = default;

    /// How many workers may run at once; worker numbers are below it.
    virtual int workers() const = 0;

    /// Runs body(task, worker) once for each task. Two tasks that run at the same time have different workers.
    /// An exception of a task reaches the caller after all workers have stopped.
    virtual void run(int64_t tasks, const std::function<void(int64_t task, int worker)>& body) = 0;
};

/// Runs everything on the calling thread.
class SerialExecutor final : public Executor {
public:
    int workers() const override { return 1; }
    void run(int64_t tasks, const std::function<void(int64_t, int)>& body) override;
};

/// Starts threads for each run and joins them: for programs without a pool of their own.
class ThreadExecutor final : public Executor {
public:
    /// threads = 0: one for each core.
    explicit ThreadExecutor(int threads = 0);
    int workers() const override { return threads_; }
    void run(int64_t tasks, const std::function<void(int64_t, int)>& body) override;

private:
    int threads_;
};

} // namespace tconv3d
