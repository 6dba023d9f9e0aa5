from vendor import VENDOR


def image_delete(image_id):
    with VENDOR.doing("image_delete"):
        VENDOR.image(image_id).delete()
