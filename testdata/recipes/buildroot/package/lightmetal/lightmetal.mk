################################################################################
#
# lightmetal
#
################################################################################

LIGHTMETAL_SITE = $(call qstrip,$(BR2_PACKAGE_LIGHTMETAL_SOURCE))
LIGHTMETAL_SITE_METHOD = local
LIGHTMETAL_LICENSE = unknown, Apache-2.0 (flatbuffers), BSD-3-Clause (Go, x/sys)
LIGHTMETAL_REDISTRIBUTE = NO

LIGHTMETAL_GOMOD = lightmetal
LIGHTMETAL_BUILD_TARGETS = tools/lmrun tools/lminit
LIGHTMETAL_GO_ENV = CGO_ENABLED=0
LIGHTMETAL_LDFLAGS = -s -w
LIGHTMETAL_TAGS = $(if $(BR2_PACKAGE_LIGHTMETAL_SIGNED),signed)

# Build output and history are large, and are not sources.
LIGHTMETAL_OVERRIDE_SRCDIR_RSYNC_EXCLUSIONS = --exclude=/build --exclude=/.git

# Modules of a local tree are not downloaded by Buildroot's own step.
define LIGHTMETAL_VENDOR
	cd $(@D) && $(HOST_GO_COMMON_ENV) GOPROXY=$(or $(GOPROXY),https://proxy.golang.org) GOFLAGS=-mod=mod $(GO_BIN) mod vendor
endef
LIGHTMETAL_POST_RSYNC_HOOKS += LIGHTMETAL_VENDOR

define LIGHTMETAL_INSTALL_WORKLOAD
	$(foreach image,$(call qstrip,$(BR2_PACKAGE_LIGHTMETAL_IMAGES)), \
		$(INSTALL) -D -m 0644 $(image) $(TARGET_DIR)/usr/share/lightmetal/$(notdir $(image))
	)
	$(if $(call qstrip,$(BR2_PACKAGE_LIGHTMETAL_CONFIG)), \
		$(INSTALL) -D -m 0644 $(call qstrip,$(BR2_PACKAGE_LIGHTMETAL_CONFIG)) $(TARGET_DIR)/etc/lightmetal/lmrun.conf)
endef
LIGHTMETAL_POST_INSTALL_TARGET_HOOKS += LIGHTMETAL_INSTALL_WORKLOAD

define LIGHTMETAL_INSTALL_INIT_SYSTEMD
	$(INSTALL) -D -m 0644 $(@D)/testdata/recipes/systemd/lightmetal.service \
		$(TARGET_DIR)/usr/lib/systemd/system/lightmetal.service
endef

$(eval $(golang-package))
