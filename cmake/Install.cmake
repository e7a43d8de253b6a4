# Component core: find_package(tconv3d) from an install prefix or a build tree.
# Component python: the operators, for the folder that holds the Python package.

include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tconv3d)
install(TARGETS tconv3d EXPORT tconv3dTargets COMPONENT core)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tconv3d DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT core)
install(EXPORT tconv3dTargets NAMESPACE tconv3d:: DESTINATION ${package_dir} COMPONENT core)
export(EXPORT tconv3dTargets NAMESPACE tconv3d:: FILE ${PROJECT_BINARY_DIR}/tconv3dTargets.cmake)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/tconv3dConfig.cmake.in
    ${PROJECT_BINARY_DIR}/tconv3dConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tconv3dConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tconv3dConfig.cmake ${PROJECT_BINARY_DIR}/tconv3dConfigVersion.cmake
    DESTINATION ${package_dir} COMPONENT core)

if(TCONV3D_BUILD_TORCH)
    install(TARGETS tconv3d_torch LIBRARY DESTINATION tconv3d COMPONENT python EXCLUDE_FROM_ALL)
endif()
