# The PyTorch operators: one shared module for torch.ops.load_library, without any Python symbol.

file(GLOB torch_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/csrc/*.cpp)
add_library(tconv3d_torch MODULE ${torch_sources})
target_include_directories(tconv3d_torch PRIVATE ${TCONV3D_SOURCE_FOLDERS})
target_link_libraries(tconv3d_torch PRIVATE tconv3d tconv3d_pytorch)
target_compile_definitions(tconv3d_torch PRIVATE
    TCONV3D_VERSION="${PROJECT_VERSION}" TCONV3D_TORCH_VERSION="${PYTORCH_VERSION}")
tconv3d_compile_options(tconv3d_torch)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 22)
    # PyTorch's macros that register operators use __COUNTER__.
    target_compile_options(tconv3d_torch PRIVATE -Wno-c2y-extensions)
endif()

# Reading PyTorch's headers takes most of the time of each file: they are read once. Every file still includes what it
# uses, which `make lint` checks by a build without precompiled headers.
target_precompile_headers(tconv3d_torch PRIVATE <ATen/ATen.h> <torch/library.h>)
# With them GCC 12 sees an overflow in std::string's operator+ that is not there.
set_source_files_properties(${PROJECT_SOURCE_DIR}/csrc/json.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON)

# From 2.13 on PyTorch compiles extensions as C++20, and its headers may use it.
if(PYTORCH_VERSION VERSION_GREATER_EQUAL 2.13)
    set_target_properties(tconv3d_torch PROPERTIES CXX_STANDARD 20)
endif()

# The library finds PyTorch's in the process (import torch comes first), never through a path of the build machine.
set_target_properties(tconv3d_torch PROPERTIES PREFIX lib SKIP_BUILD_RPATH ON)
